//! JSON as json-c reads it. Unlike serde_json's maps it keeps the order of keys and repeated keys, and locates errors.
//!
//! rt-app's files contain comments (`/* … */`, `// …`) and trailing commas, which json-c and this reader accept.
//! workgen's keys without a value (`"suspend",`) are null. Numbers keep their text, so that integers are exact.

/// A value. An object keeps its members in file order, repeated ones included.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as its text.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

/// Text that is not JSON.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}, column {column}: {what}")]
pub struct NotJson {
    line: usize,
    column: usize,
    what: String,
}

/// Maximum nesting, deeper than any task set.
const DEEPEST: usize = 64;

/// Maximum number of values, four for each event of the largest task set: a value of two bytes takes a hundred in memory.
const MOST: usize = 1 << 21;

impl Json {
    /// Reads a whole text.
    ///
    /// # Errors
    /// The position of the first syntax error.
    pub fn parse(text: &str) -> Result<Json, NotJson> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text); // a byte-order mark
        let mut reader = Reader { bytes: text.as_bytes(), text, at: 0, values: 0 };
        reader.space()?;
        let value = reader.value(0)?;
        reader.space()?;
        match reader.at == text.len() {
            true => Ok(value),
            false if matches!(value, Json::Text(_)) && text[reader.at..].starts_with(':') => Err(reader
                .error(
                    "text after the end of the JSON value: the members of an object need { and } around them",
                )),
            false => Err(reader.error("text after the end of the JSON value")),
        }
    }

    /// Type of the value, for errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::Text(_) => "a string",
            Json::List(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    values: usize,
}

impl Reader<'_> {
    fn error(&self, what: impl Into<String>) -> NotJson {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        NotJson { line, column, what: what.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) -> Result<(), NotJson> {
        loop {
            match (self.peek(), self.bytes.get(self.at + 1)) {
                (Some(b' ' | b'\t' | b'\r' | b'\n'), _) => self.at += 1,
                (Some(b'/'), Some(b'/')) => {
                    let end = self.bytes[self.at..].iter().position(|byte| *byte == b'\n');
                    self.at = end.map_or(self.bytes.len(), |end| self.at + end);
                }
                (Some(b'/'), Some(b'*')) => {
                    let end = self.text[self.at + 2..].find("*/");
                    self.at = end
                        .map(|end| self.at + end + 4)
                        .ok_or_else(|| self.error("a comment without an end"))?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, NotJson> {
        if depth > DEEPEST {
            return Err(self.error(format!("nested deeper than {DEEPEST} levels")));
        }
        self.values += 1;
        if self.values > MOST {
            return Err(self.error(format!("more than {MOST} values")));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word(),
            Some(_) => Err(self.error("expected a value")),
            None => Err(self.error("the text ends where a value is expected")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, NotJson> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.space()?;
            match self.peek() {
                Some(b'}') => break,
                Some(b'"') => {}
                _ => return Err(self.error("expected a key in double quotes or '}'")),
            }
            let key = self.string()?;
            self.space()?;
            match self.peek() {
                Some(b':') => {
                    self.at += 1;
                    self.space()?;
                    members.push((key, self.value(depth + 1)?));
                }
                // workgen's `"suspend",`
                Some(b',' | b'}') => members.push((key, Json::Null)),
                _ => return Err(self.error(format!("expected ':' after \"{key}\""))),
            }
            if !self.goes_on(b'}')? {
                break;
            }
        }
        self.at += 1;
        Ok(Json::Object(members))
    }

    fn list(&mut self, depth: usize) -> Result<Json, NotJson> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.space()?;
            if self.peek() == Some(b']') {
                break;
            }
            items.push(self.value(depth + 1)?);
            if !self.goes_on(b']')? {
                break;
            }
        }
        self.at += 1;
        Ok(Json::List(items))
    }

    /// Whether a comma follows; otherwise `end` is required.
    fn goes_on(&mut self, end: u8) -> Result<bool, NotJson> {
        self.space()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => Ok(false),
            _ => Err(self.error(format!("expected ',' or '{}'", char::from(end)))),
        }
    }

    fn string(&mut self) -> Result<String, NotJson> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(self.error("a string without an end")),
            }
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at).ok_or_else(|| self.error("a string without an end"))?;
        // json-c accepts raw tabs and line ends in strings.
        let decoded: Result<String, _> =
            serde_json::from_str(&quoted.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r"));
        // On one line: a name must not look like a row of its own in a table of results.
        decoded
            .map(|text| text.replace(['\n', '\t', '\r'], " "))
            .map_err(|error| self.error(format!("bad string: {error}")))
    }

    fn number(&mut self) -> Result<Json, NotJson> {
        let rest = &self.text[self.at..];
        let length =
            rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let text = &rest[..length];
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.at += length;
                Ok(Json::Number(text.to_owned()))
            }
            _ => Err(self.error(format!("'{text}' is not a number"))),
        }
    }

    fn word(&mut self) -> Result<Json, NotJson> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let value = match rest[..length].to_ascii_lowercase().as_str() {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            "null" => Json::Null,
            _ => return Err(self.error(format!("expected a value, not '{}'", &rest[..length]))),
        };
        self.at += length;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_of_values_is_limited() {
        let told = Json::parse(&format!("[{}0]", "0,".repeat(MOST))).unwrap_err().to_string();
        assert!(told.ends_with("more than 2097152 values"), "{told}");
    }

    #[test]
    fn order_and_repeated_keys_survive_and_comments_do_not_matter() {
        let text = "/* a\n * b */ {\"run\": 1, // one\n \"sleep\" : [2, -3,], \"run\" : \"a\\u00b5\\\"\", }";
        let number = |text: &str| Json::Number(text.to_owned());
        let members = vec![
            ("run".to_owned(), number("1")),
            ("sleep".to_owned(), Json::List(vec![number("2"), number("-3")])),
            ("run".to_owned(), Json::Text("aµ\"".to_owned())),
        ];
        let same = Json::parse(&format!("\u{feff}{text}"));
        assert_eq!(same, Ok(Json::Object(members.clone())), "a byte-order mark");
        assert_eq!(Json::parse(text), Ok(Json::Object(members)));
    }

    #[test]
    fn a_name_is_on_one_line() {
        let text = Json::Text("a b c d".to_owned());
        assert_eq!(Json::parse("\"a\\nb\\tc\nd\""), Ok(text));
    }

    #[test]
    fn an_error_names_its_place() {
        let said = |text: &str| Json::parse(text).unwrap_err().to_string();
        assert_eq!(said("{\n \"a\" 1}"), "line 2, column 6: expected ':' after \"a\"");
        assert_eq!(said("{} x"), "line 1, column 4: text after the end of the JSON value");
        let bare = said("\"tasks\": {},\n\"global\": {}\n");
        assert!(
            bare.starts_with("line 1, column 8: text after") && bare.contains("{ and } around them"),
            "{bare}"
        );
        assert!(said(&"[".repeat(100_000)).contains("nested deeper"));
        for bad in ["", "{", "[1", "{\"a\"", "\"", "\"\\", "/*", "nul", "1e999", "--", "{'a':1}", "\"\\x\""] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\",:/*0-9eatrue\\\\ µ\n-]{0,40}") {
            let _ = Json::parse(&text);
        }
    }
}
