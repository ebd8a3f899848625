/** Rows of f32 values with the same length. They are zeros until they are written. */
export interface RowStore {
  /** Fills `values` with rows, one after the other. */
  read(rows: Int32Array, values: Float32Array): void;
  /** If the store outlives the process, written rows are safe when this returns, even if the process ends. */
  write(rows: Int32Array, values: Float32Array): void;
  close(): void;
}

/** Opens the rows of a table. If the store outlives processes, the rows of an earlier process are there again. */
export type OpenRows = (table: string, rows: number, width: number) => RowStore;

const PAGE_ROWS = 4096;

/** Keeps rows in memory. A page of rows is allocated when one of its rows is written. */
export function memoryRows(_table: string, _rows: number, width: number): RowStore {
  const pages = new Map<number, Float32Array>();
  const placeOf = (row: number): number => (row % PAGE_ROWS) * width;
  return {
    read(rows, values) {
      rows.forEach((row, index) => {
        const page = pages.get(Math.floor(row / PAGE_ROWS));
        const place = placeOf(row);
        const found = page?.subarray(place, place + width);
        values.set(found ?? new Float32Array(width), index * width);
      });
    },
    write(rows, values) {
      rows.forEach((row, index) => {
        const number = Math.floor(row / PAGE_ROWS);
        const page = pages.get(number) ?? new Float32Array(PAGE_ROWS * width);
        pages.set(number, page);
        page.set(values.subarray(index * width, (index + 1) * width), placeOf(row));
      });
    },
    close: () => pages.clear(),
  };
}
