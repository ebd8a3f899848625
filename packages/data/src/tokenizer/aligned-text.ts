/** A place in a text: from one UTF-16 unit to another, so that `text.slice(start, end)` is what is there. */
export type Offsets = readonly [start: number, end: number];

/** What becomes of a character: the new one, and how the number of characters changes there (`transform`). */
export type Change = readonly [character: string, change: number];

/**
 * A text that was changed, and for each of its UTF-16 units the place in the original text that it comes from. Places are
 * those of the Rust library `tokenizers` (`NormalizedString`), also where they could be said in another way.
 */
export class AlignedText {
  readonly text: string;
  readonly #places: readonly Offsets[];

  private constructor(text: string, places: readonly Offsets[]) {
    this.text = text;
    this.#places = places;
  }

  /** A text that is not changed yet. */
  static of(text: string): AlignedText {
    const places: Offsets[] = [];
    for (const character of text) {
      const place: Offsets = [places.length, places.length + character.length];
      for (let unit = 0; unit < character.length; unit++) places.push(place);
    }
    return new AlignedText(text, places);
  }

  slice(start: number, end?: number): AlignedText {
    return new AlignedText(this.text.slice(start, end), this.#places.slice(start, end));
  }

  /** The place in the original text of a part of this one. Undefined for a part without characters. */
  offsetsOf(start: number, end: number): Offsets | undefined {
    const [first, last] = [this.#places[start], this.#places[end - 1]];
    return first === undefined || last === undefined || end <= start
      ? undefined
      : [first[0], last[1]];
  }

  /** Puts other characters, or none, in the place of each character. */
  mapCharacters(make: (character: string) => string): AlignedText {
    let text = '';
    const places: Offsets[] = [];
    let at = 0;
    for (const character of this.text) {
      const made = make(character);
      const place = this.#places[at] ?? [0, 0];
      at += character.length;
      text += made;
      for (let unit = 0; unit < made.length; unit++) places.push(place);
    }
    return new AlignedText(text, places);
  }

  /** Puts a text in the place of each match. It comes from the last character of the match. */
  replace(pattern: RegExp, content: string): AlignedText {
    let text = '';
    const places: Offsets[] = [];
    let end = 0;
    const keep = (start: number, stop: number): void => {
      text += this.text.slice(start, stop);
      for (let unit = start; unit < stop; unit++) places.push(this.#places[unit] ?? [0, 0]);
    };
    for (const match of this.text.matchAll(pattern)) {
      keep(end, match.index);
      end = match.index + match[0].length;
      const place = this.#places[end - 1] ?? [0, 0];
      text += content;
      for (let unit = 0; unit < content.length; unit++) places.push(place);
    }
    keep(end, this.text.length);
    return new AlignedText(text, places);
  }

  /** Puts a text before this one. It comes from the first character. */
  prepend(prefix: string): AlignedText {
    const [first] = this.#places;
    if (first === undefined) return this;
    return new AlignedText(prefix + this.text, [
      ...Array.from({ length: prefix.length }, () => first),
      ...this.#places,
    ]);
  }

  /**
   * Makes the text of new characters. Each takes the place of the next character of this text, and then goes past as many
   * more as a negative change says; one with a change of 1 is put in, and comes from the character before it.
   */
  transform(changes: readonly Change[]): AlignedText {
    let text = '';
    const places: Offsets[] = [];
    let at = 0;
    const pass = (): void => {
      at += (this.text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    };
    for (const [character, change] of changes) {
      const place = this.#places[change > 0 ? at - 1 : at] ?? [0, 0];
      if (change <= 0) for (let passed = 0; passed <= -change; passed++) pass();
      text += character;
      for (let unit = 0; unit < character.length; unit++) places.push(place);
    }
    return new AlignedText(text, places);
  }
}
