//! A headless Chromium, controlled by the DevTools protocol over a pipe: JSON messages, each terminated by a zero byte.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Longest wait for an expression to become true. Generous, because machines that build at the same time are slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    asked: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Opens a page at this address in a window of this size.
    pub(crate) fn open(address: &str, width: u32, height: u32) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // Chromium reads commands from file descriptor 3 and writes responses to 4.
        let script = r#"exec 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null; exec "$@""#;
        let mut process = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(harness::tool("bin/chromium"))
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-quic",
                "--disable-sync",
                "--lang=en-US",
            ])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut browser = Self {
            to: process.stdin.take().unwrap(),
            from: BufReader::new(process.stdout.take().unwrap()),
            process,
            session: String::new(),
            asked: 0,
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let id = target.get("targetId").cloned().unwrap();
        let attached = browser.ask(
            "Target.attachToTarget",
            json!({"targetId": id, "flatten": true}),
        );
        let session = attached.get("sessionId").and_then(Value::as_str);
        browser.session = session.unwrap().to_owned();
        browser.ask("Page.enable", json!({}));
        browser.ask("Page.navigate", json!({"url": address}));
        browser.until("document.body?.dataset.ready === 'yes'");
        browser
    }

    /// Result of one command; events received before it are skipped.
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        self.to.flush().unwrap();
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).unwrap();
            text.pop();
            assert!(!text.is_empty(), "the browser ended while {method}");
            let mut answer: Value = serde_json::from_slice(&text).unwrap();
            if answer.get("id").and_then(Value::as_u64) == Some(self.asked) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Value of an expression evaluated in the page; promises are awaited.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.ask("Runtime.evaluate", parameters);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(begun.elapsed() < PATIENCE, "never so: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key, by its name in `KeyboardEvent.key`.
    pub(crate) fn press(&mut self, key: &str) {
        let is_text = key.chars().count() == 1;
        let text = match key {
            "Enter" => json!("\r"),
            key if is_text => json!(key),
            _ => Value::Null,
        };
        for event_type in ["keyDown", "keyUp"] {
            let mut event = json!({"type": event_type, "key": key, "code": key});
            if let (Some(code), false) = (code(key), is_text) {
                event["windowsVirtualKeyCode"] = code.into();
            }
            if event_type == "keyDown" && !text.is_null() {
                event["text"] = text.clone();
            }
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Clicks the center of the first element that matches a selector.
    pub(crate) fn click(&mut self, selector: &str) {
        let place = format!(
            "(() => {{ const element = document.querySelector({selector:?}); element.scrollIntoView({{block: 'center'}}); \
             const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.value(&place);
        for event_type in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": event_type, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Emulates the system's color scheme, `light` or `dark`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Violations of accessibility rules that axe-core finds in the page, one line each.
    pub(crate) fn violations(&mut self) -> Vec<String> {
        let axe = std::fs::read_to_string(harness::tool("bin/axe.min.js")).unwrap();
        self.value(&format!("{axe}; 0"));
        let violations = self.value(
            "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.flatMap(
                ({id, nodes}) => nodes.map(({html, failureSummary}) => `${id}: ${html}: ${failureSummary}`)))",
        );
        let violations = violations.as_array().unwrap().iter();
        violations
            .map(|violation| violation.as_str().unwrap().to_owned())
            .collect()
    }

    /// Resizes the page, as on a phone or a large screen.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Role and name of every node of the accessibility tree.
    pub(crate) fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.ask("Accessibility.getFullAXTree", json!({}));
        let nodes = tree.get("nodes").and_then(Value::as_array).unwrap();
        let exposed = nodes.iter().filter(|node| node["ignored"] == json!(false));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        exposed
            .map(|node| (text(&node["role"]), text(&node["name"])))
            .collect()
    }

    /// A screenshot as PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let shot = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        BASE64_STANDARD
            .decode(shot["data"].as_str().unwrap())
            .unwrap()
    }
}

fn code(key: &str) -> Option<u32> {
    Some(match key {
        "Enter" => 13,
        "Escape" => 27,
        "End" => 35,
        "Home" => 36,
        "ArrowLeft" => 37,
        "ArrowUp" => 38,
        "ArrowRight" => 39,
        "ArrowDown" => 40,
        "Tab" => 9,
        _ => return None,
    })
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
