import type { Memory } from './operands.ts';
import type { Label } from '../label.ts';

/** A growing sequence of bytes of code, with jumps between places in it. */
export class Code {
  #bytes = new Uint8Array(1 << 14);
  #length = 0;
  readonly #jumps: { readonly byteOffset: number; readonly target: Label }[] = [];

  get byteLength(): number {
    return this.#length;
  }

  byte(...values: readonly number[]): void {
    for (const value of values) {
      if (this.#length === this.#bytes.length) {
        const larger = new Uint8Array(2 * this.#length);
        larger.set(this.#bytes);
        this.#bytes = larger;
      }
      this.#bytes[this.#length++] = value;
    }
  }

  int32(value: number): void {
    if (value !== (value | 0)) throw new RangeError(`${value} does not fit in 32 bits`);
    this.byte(value & 0xff, (value >> 8) & 0xff, (value >> 16) & 0xff, (value >> 24) & 0xff);
  }

  /** Writes the distance to a label, in 32 bits. It is counted from behind these 32 bits. */
  distance(target: Label): void {
    this.#jumps.push({ byteOffset: this.#length, target });
    this.int32(0);
  }

  place(label: Label): void {
    if (label.byteOffset !== undefined) throw new RangeError('a label is placed once');
    label.byteOffset = this.#length;
  }

  /**
   * Writes the bytes behind the opcode that name the operands. A displacement that is a small multiple of `unitBytes`
   * takes only one byte. That byte counts units in EVEX instructions, and bytes in others.
   */
  operands(reg: number, rm: number | Memory, unitBytes = 1): void {
    const middle = (reg & 7) << 3;
    if (typeof rm === 'number') {
      this.byte(0xc0 | middle | (rm & 7));
      return;
    }
    const { base, index, scale, displacement } = rm;
    if (index?.index === 4) throw new RangeError('rsp cannot be an index');
    const units = displacement / unitBytes;
    const isNone = displacement === 0 && (base.index & 7) !== 5;
    const isShort = Number.isInteger(units) && units >= -128 && units <= 127;
    const mode = isNone ? 0 : isShort ? 0x40 : 0x80;
    if (index === null && (base.index & 7) !== 4) {
      this.byte(mode | middle | (base.index & 7));
    } else {
      const factor = Math.log2(scale) << 6;
      this.byte(mode | middle | 4, factor | (((index?.index ?? 4) & 7) << 3) | (base.index & 7));
    }
    if (mode === 0x40) this.byte(units & 0xff);
    else if (mode === 0x80) this.int32(displacement);
  }

  /** Returns the code with all jumps filled in. Throws RangeError if a jump's label has not been placed. */
  finish(): Uint8Array {
    const bytes = this.#bytes.slice(0, this.#length);
    const view = new DataView(bytes.buffer);
    for (const { byteOffset, target } of this.#jumps) {
      if (target.byteOffset === undefined) throw new RangeError('a jump to a label without place');
      view.setInt32(byteOffset, target.byteOffset - byteOffset - 4, true);
    }
    return bytes;
  }
}
