// SPDX-License-Identifier: MIT
//
// A page that is opened as a file may start no worker. There the search runs in a frame.
if (location.protocol === "file:")
	window.Worker = class extends EventTarget {
		constructor(url) {
			super();
			const frame = document.createElement("iframe");
			frame.hidden = true;
			document.body.append(frame);
			this.window = frame.contentWindow;
			this.ready = new Promise(ready => frame.addEventListener("load", ready));
			const page = frame.contentDocument;
			page.open();
			this.window.postMessage = data =>
				this.dispatchEvent(new MessageEvent("message", { data }));
			page.write(`<script src="${url}"></` + "script>");
			page.close();
		}
		postMessage(data) {
			this.ready.then(() =>
				this.window.dispatchEvent(new MessageEvent("message", { data })));
		}
		terminate() {}
	};
