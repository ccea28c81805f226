use super::*;

const HIGH: Who = Who::Fiber(0);
const MIDDLE: Who = Who::Fiber(1);
const LOW: Who = Who::Fiber(2);

fn ms(ms: u64) -> Mono {
    Mono(1_000_000_000 + ms * 1_000_000)
}

/// `low` holds a mutex when `high` comes at 1 ms, and `middle` computes from 2 ms to 22 ms.
fn inversion() -> FiberTrace {
    let mut events = Vec::new();
    let mut is = |at: u64, who: Who, what: What| {
        let priority = [30, 20, 10][[HIGH, MIDDLE, LOW].iter().position(|one| *one == who).unwrap()];
        events.push(FiberEvent { at: ms(at), who, priority, what });
    };
    is(0, LOW, What::Ready { by: None });
    is(0, LOW, What::Runs);
    is(0, LOW, What::JobBegins { release: ms(0) });
    is(1, HIGH, What::Ready { by: None });
    is(1, HIGH, What::Runs);
    is(1, HIGH, What::JobBegins { release: ms(1) });
    is(1, HIGH, What::WaitsForMutex(0));
    is(1, LOW, What::Runs);
    is(2, MIDDLE, What::Ready { by: None });
    is(2, MIDDLE, What::Runs);
    is(22, MIDDLE, What::Sleeps);
    is(22, LOW, What::Runs);
    is(25, HIGH, What::Ready { by: Some(LOW) });
    is(25, HIGH, What::Runs);
    is(26, HIGH, What::JobEnds { release: ms(1) });
    is(26, HIGH, What::Sleeps);
    is(26, LOW, What::Runs);
    is(27, LOW, What::Ends);
    let mutex = Mutex { name: "m".to_owned(), protocol: Protocol::None, ceiling: 30, floor: None };
    FiberTrace {
        carrier: Tid(77),
        cpu: Cpu(1),
        fibers: ["high", "middle", "low"].map(str::to_owned).to_vec(),
        mutexes: vec![mutex],
        events,
        overwritten: 0,
    }
}

#[test]
fn switches_are_whole_and_a_wait_with_nobody_ready_goes_to_idle() {
    let text = inversion().to_text();
    let switches: Vec<&str> = text.lines().filter(|line| line.contains("sched_switch")).collect();
    let is = |nth: usize, prev: &str, state: char, next: &str| {
        let line = switches[nth];
        let all =
            [format!("prev_comm={prev} "), format!("prev_state={state} "), format!("next_comm={next} ")];
        assert!(all.iter().all(|part| line.contains(part)), "{line}");
    };
    is(0, "swapper/1", 'R', "low");
    is(1, "low", 'R', "high");
    is(2, "high", 'S', "low");
    is(3, "low", 'R', "middle");
    is(4, "middle", 'S', "low");
    is(5, "low", 'R', "high");
    is(6, "high", 'S', "low");
    is(7, "low", 'X', "swapper/1");
    assert_eq!(switches.len(), 8);
    assert!(text.contains("# futex 0x1000: mutex m"));
}

#[test]
fn a_name_cannot_be_taken_for_an_event() {
    let mut trace = inversion();
    trace.fibers[0] = "a: sched_switch: x\n".to_owned();
    let text = trace.to_text();
    assert!(text.contains("a__sched_switch-4194304"), "{text}");
    assert_eq!(
        text.lines().filter(|line| !line.starts_with('#')).count(),
        trace.to_text().lines().count() - 6
    );
}
