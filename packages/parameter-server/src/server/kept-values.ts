/** The values with which a push was answered, until its worker has pulled them. */
export class KeptValues {
  readonly #values: Map<number, Uint8Array>;

  constructor(values: readonly Uint8Array[]) {
    this.#values = new Map(values.entries());
  }

  /**
   * Takes the values at some places. A value that was taken before, because its answer was lost, is the current one.
   */
  async take(
    places: readonly number[],
    current: () => Promise<readonly Uint8Array[]>,
  ): Promise<readonly Uint8Array[]> {
    const isComplete = places.every((place) => this.#values.has(place));
    const now = isComplete ? [] : await current();
    return places.map((place) => {
      const value = this.#values.get(place) ?? now[place] ?? new Uint8Array(0);
      this.#values.delete(place);
      return value;
    });
  }
}
