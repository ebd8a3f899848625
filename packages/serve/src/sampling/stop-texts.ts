/** Ends a text before the first of some other texts. What may be the beginning of one is held back until it is known. */
export class StopTexts {
  readonly #stops: readonly string[];
  #held = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** Takes more text. Returns what is known to be no part of a stop, and whether the text has ended. */
  push(added: string): { readonly text: string; readonly ended: boolean } {
    const all = this.#held + added;
    const places = this.#stops.map((stop) => all.indexOf(stop)).filter((place) => place >= 0);
    if (places.length > 0) {
      this.#held = '';
      return { text: all.slice(0, Math.min(...places)), ended: true };
    }
    const held = Math.max(0, ...this.#stops.map((stop) => overlap(all, stop)));
    this.#held = all.slice(all.length - held);
    return { text: all.slice(0, all.length - held), ended: false };
  }

  /** What was held back, when no more text comes. */
  end(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }
}

/** The length of the longest end of a text that a stop begins with. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--) {
    if (text.endsWith(stop.slice(0, length))) return length;
  }
  return 0;
}
