import { HEADER_BYTES, readHeader, type FrameHeader, type FrameLimits } from './frame-header.ts';

export interface Frame extends FrameHeader {
  readonly body: Uint8Array;
}

/** Cuts a stream into frames with short bodies, whatever pieces its bytes arrive in. */
export class FrameParser {
  readonly #limits: FrameLimits;
  readonly #head = new Uint8Array(HEADER_BYTES);
  readonly #headView = new DataView(this.#head.buffer);
  #headFilled = 0;
  #header: FrameHeader | undefined;
  #body = new Uint8Array(0);
  #bodyFilled = 0;

  constructor(limits: FrameLimits) {
    this.#limits = limits;
  }

  /** The frames that are complete with these bytes. Throws CollectiveError for a bad header. */
  push(chunk: Uint8Array): readonly Frame[] {
    const frames: Frame[] = [];
    let offset = 0;
    do {
      offset += this.#header === undefined ? this.#fillHead(chunk, offset) : 0;
      if (this.#header === undefined) break;
      const taken = chunk.subarray(offset, offset + this.#body.byteLength - this.#bodyFilled);
      this.#body.set(taken, this.#bodyFilled);
      this.#bodyFilled += taken.byteLength;
      offset += taken.byteLength;
      if (this.#bodyFilled < this.#body.byteLength) break;
      frames.push({ ...this.#header, body: this.#body });
      this.#header = undefined;
      this.#headFilled = 0;
    } while (offset < chunk.byteLength);
    return frames;
  }

  #fillHead(chunk: Uint8Array, offset: number): number {
    const taken = chunk.subarray(offset, offset + HEADER_BYTES - this.#headFilled);
    this.#head.set(taken, this.#headFilled);
    this.#headFilled += taken.byteLength;
    if (this.#headFilled === HEADER_BYTES) {
      this.#header = readHeader(this.#headView, this.#limits);
      this.#body = new Uint8Array(this.#header.length);
      this.#bodyFilled = 0;
    }
    return taken.byteLength;
  }
}
