/** Counts the updates of a rank since parameters were averaged. Checkpoints keep it among `states`. */
export class LocalSteps {
  count = 0;
  #latest: object | null = null;

  /** Counts an update. It is called with the same update once for each parameter. */
  note(update: object): void {
    if (update === this.#latest) return;
    this.#latest = update;
    this.count++;
  }

  stateDict(): { readonly count: number } {
    return { count: this.count };
  }

  loadStateDict(state: unknown): void {
    const count: unknown =
      typeof state === 'object' && state !== null && Reflect.get(state, 'count');
    if (typeof count !== 'number' || !Number.isInteger(count) || count < 0) {
      throw new TypeError('a state of local SGD has the number of updates since the last average');
    }
    this.count = count;
  }

  /** Plans print their data as JSON. */
  toJSON(): object {
    return {};
  }
}
