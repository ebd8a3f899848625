/** Makes the browser save a file among the visitor's downloads. Only a page can call it, not a rank. */
export function download(file: File): void {
  const address = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = address;
  link.download = file.name;
  link.click();
  // The browser has taken the file by then; a long one it reads on.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
