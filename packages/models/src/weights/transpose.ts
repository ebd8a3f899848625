/** Transposes a matrix of elements of any dtype. Shape: bytes [rows, columns] -> [columns, rows]. */
export function transpose(
  bytes: Uint8Array,
  rows: number,
  columns: number,
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const result = new Uint8Array(bytes.byteLength);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const from = (row * columns + column) * elementBytes;
      const to = (column * rows + row) * elementBytes;
      for (let byte = 0; byte < elementBytes; byte++) result[to + byte] = bytes[from + byte] ?? 0;
    }
  }
  return result;
}
