//! The few calls of Chromium's DevTools protocol that the browser test needs, over `--remote-debugging-pipe`:
//! messages are JSON ended by a NUL byte, commands go to its descriptor 3, answers come from descriptor 4.
//!
//! No network and no port: two named pipes in the profile directory, which a shell opens at those descriptors.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use serde_json::{json, Value};

const SWITCHES: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1100,1000",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    commands: File,
    answers: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Everything the page told: console, exceptions, requests.
    pub events: Vec<Value>,
}

impl Browser {
    /// Starts Chromium with `profile` as its directory.
    pub fn start(profile: &Path) -> Browser {
        let (input, output) = (profile.join("commands"), profile.join("answers"));
        assert!(Command::new("mkfifo").args([&input, &output]).status().unwrap().success());
        let child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<\"$IN\" 4>\"$OUT\"", "sh"])
            .args(SWITCHES)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("IN", &input)
            .env("OUT", &output)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // In the order in which the shell opens them: each open waits for the other side.
        let commands = OpenOptions::new().write(true).open(&input).unwrap();
        let answers = BufReader::new(File::open(&output).unwrap());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Browser { child, commands, answers: receiver, session: None, last_id: 0, events: Vec::new() };
        let targets = browser.call("Target.getTargets", json!({}));
        let page = targets["targetInfos"].as_array().unwrap().iter().find(|t| t["type"] == "page").unwrap();
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": page["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    /// Calls `method` and waits for its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands.write_all((message.to_string() + "\0").as_bytes()).unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == self.last_id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn next(&mut self) -> Value {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("the browser answers within a minute")
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.events.push(event);
        }
    }

    /// The value of a JavaScript expression.
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// A mouse event at a place of the window.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let held = u8::from(kind != "mouseReleased");
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": 1}),
        );
    }

    /// A key, pressed and released.
    pub fn key(&mut self, key: &str, shift: bool) {
        let modifiers = if shift { 8 } else { 0 };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "modifiers": modifiers});
            if key.len() == 1 && kind == "keyDown" {
                event["text"] = key.into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// What went wrong in the page: console messages, exceptions, log entries.
    pub fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |event: &&Value| {
            ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"]
                .contains(&event["method"].as_str().unwrap_or(""))
        };
        self.events.iter().filter(is_complaint).collect()
    }

    /// Addresses the page asked for.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.map(|event| event["params"]["request"]["url"].as_str().unwrap_or("").to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
