// Tells of a file that is too large for its form before it is sent.

export function checkFiles(root) {
  for (const input of root.querySelectorAll("input[type=file][data-most-bytes]")) {
    input.addEventListener("change", () => {
      const most = Number(input.dataset.mostBytes);
      const size = input.files[0]?.size ?? 0;
      const why = `This file has ${Math.ceil(size / 1024)} kB, and at most ${Math.floor(most / 1024)} kB are taken here.`;
      input.setCustomValidity(size > most ? why : "");
      input.reportValidity();
    });
  }
}
