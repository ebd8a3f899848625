/** Values in the order of their times; those of one time in the order in which they were added. */
export class EventQueue<Value> {
  readonly #heap: { readonly time: number; readonly order: number; readonly value: Value }[] = [];
  #added = 0;

  get isEmpty(): boolean {
    return this.#heap.length === 0;
  }

  add(time: number, value: Value): void {
    const heap = this.#heap;
    let at = heap.length;
    const entry = { time, order: this.#added++, value };
    heap.push(entry);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(entry, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = entry;
  }

  /** Removes the first value. Undefined if there is none. */
  take(): { readonly time: number; readonly value: Value } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const [a, b] = [heap[left], heap[left + 1]];
      if (a === undefined) break;
      const isRight = b !== undefined && isBefore(b, a);
      const child = isRight ? b : a;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = isRight ? left + 1 : left;
    }
    heap[at] = last;
    return first;
  }
}

interface Ordered {
  readonly time: number;
  readonly order: number;
}

function isBefore(a: Ordered, b: Ordered): boolean {
  return a.time < b.time || (a.time === b.time && a.order < b.order);
}
