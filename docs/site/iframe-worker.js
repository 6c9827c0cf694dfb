// The search of the site where it is opened as a file: a browser starts no worker from one, so its script runs in a
// frame. The theme knows such a worker by the name IFrameWorker.
(() => {
  if (location.protocol !== "file:") return

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inner = (this.inner = frame.contentWindow)

      // Scripts run one after the other, and the last of them tells the worker's script that all are there.
      const load = source =>
        new Promise((resolve, reject) => {
          const script = inner.document.createElement("script")
          Object.assign(script, { src: source, onload: resolve, onerror: reject })
          inner.document.body.appendChild(script)
        })
      inner.importScripts = (...sources) => sources.reduce((before, each) => before.then(() => load(each)), Promise.resolve())
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(new URL(url, location.href).href)
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inner.frameElement.remove()
    }
  }

  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
})()
