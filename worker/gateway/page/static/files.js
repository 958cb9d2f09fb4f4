// Puts the text of a chosen file into the field that `data-into` names; without this one pastes it there.

export function takeFiles(root) {
  for (const chooser of root.querySelectorAll("input[type=file][data-into]")) {
    const field = document.getElementById(chooser.dataset.into);
    const most = Number(chooser.dataset.mostBytes);
    chooser.closest("[hidden]").hidden = false;
    chooser.addEventListener("change", async () => {
      const [file] = chooser.files;
      if (!file) return;
      const isLarge = file.size > most;
      chooser.setCustomValidity(isLarge ? `${file.name} has ${file.size} bytes, at most ${most} can be sent.` : "");
      chooser.reportValidity();
      if (isLarge) chooser.value = "";
      else field.value = await file.text();
      chooser.setCustomValidity("");
    });
  }
}
