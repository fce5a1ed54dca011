(() => {
  const form = document.querySelector("form");
  const scenes = [...document.querySelectorAll("details.scene")].map((element) => ({
    element,
    pairs: [...element.querySelectorAll("tbody")].map((body) => ({
      body,
      lines: [...body.querySelectorAll("tr[data-s]")],
    })),
  }));
  const total = scenes.reduce((sum, scene) => sum + scene.pairs.length, 0);

  // A pair stays if any line of the chosen system has the chosen verdict; then all its lines do.
  function filter() {
    const category = form.elements.category.value;
    const system = form.elements.system.value;
    const verdict = form.elements.verdict.value;
    let shown = 0;
    for (const { element, pairs } of scenes) {
      let left = 0;
      for (const { body, lines } of pairs) {
        const verdicts = new Set();
        for (const line of lines) {
          const mine = !system || line.dataset.s === system;
          line.hidden = verdict !== "differ" && !mine;
          if (mine || verdict === "differ") verdicts.add(line.dataset.v);
        }
        const fits = !verdict || (verdict === "differ" ? verdicts.size > 1 : verdicts.has(verdict));
        body.hidden = !fits || (category !== "" && body.dataset.c !== category);
        left += !body.hidden;
      }
      element.hidden = pairs.length > 0 && !left;
      shown += left;
    }
    form.querySelector("output").textContent = `${shown} of ${total} quadruples`;
  }

  // A video in view shows its first frame; one that was not played is let go when out of view, as
  // browsers hold only some dozens at a time.
  const watcher = new IntersectionObserver((entries) => {
    for (const { target: video, isIntersecting } of entries) {
      if (isIntersecting) {
        video.preload = "metadata";
      } else if (video.preload === "metadata" && video.paused && video.currentTime === 0) {
        video.preload = "none";
        video.load();
      }
    }
  });

  function follow() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return; // a hash that is no percent-encoding names nothing here
    }
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }

  form.addEventListener("change", filter);
  for (const button of form.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      for (const { element } of scenes) if (!element.hidden) element.open = button.dataset.open === "1";
    });
  }
  for (const video of document.querySelectorAll("video")) watcher.observe(video);
  window.addEventListener("hashchange", follow);
  filter();
  follow();
})();
