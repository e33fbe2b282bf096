// Checks of a form while the visitor types: the daemon returns the problems by field.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const QUIET_MS = 500;

  for (const form of document.querySelectorAll("form[data-check]")) checked(form);

  function checked(form) {
    let timer = null;
    let number = 0;

    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(check, QUIET_MS);
    });

    async function check() {
      number += 1;
      const mine = number;
      try {
        const answer = await fetch(form.dataset.check, {
          method: "POST",
          headers: { "X-Merkat-Live": "1" },
          credentials: "same-origin",
          body: new URLSearchParams(new FormData(form)),
        });
        // An answer to an earlier text says nothing about the present one.
        if (answer.ok && mine === number) show((await answer.json()).wrong);
      } catch {
        // The daemon does not answer, as the header says; the quote checks the form again.
      }
    }

    function show(wrong) {
      for (const input of form.querySelectorAll("[id^=field-]")) problem(input, input.name, wrong[input.name]);
      const general = form.querySelector("[data-problems]");
      if (general) problem(general, "", wrong[""]);
    }

    function problem(input, name, words) {
      const id = name ? `wrong-${name}` : "wrong";
      let text = form.querySelector(`#${id}`);
      if (!words) {
        input.removeAttribute("aria-invalid");
        if (text) text.remove();
        describe(input, id, false);
        return;
      }
      if (!text) {
        text = document.createElement("p");
        text.className = "wrong";
        text.id = id;
        text.setAttribute("role", "status");
        (name ? input.parentNode : input).append(text);
      }
      if (text.textContent !== words) text.textContent = words;
      if (name) input.setAttribute("aria-invalid", "true");
      describe(input, id, Boolean(name));
    }

    function describe(input, id, there) {
      const ids = new Set((input.getAttribute("aria-describedby") || "").split(" ").filter(Boolean));
      if (there) ids.add(id);
      else ids.delete(id);
      if (ids.size) input.setAttribute("aria-describedby", [...ids].join(" "));
      else input.removeAttribute("aria-describedby");
    }
  }
});
