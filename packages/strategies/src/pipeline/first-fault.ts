import {
  currentSession,
  type DType,
  dtypes,
  type Node,
  type ProcessGroup,
} from '@shardwise/core/extend';

/** Where a value between stages is not finite. */
export interface Fault {
  readonly stage: number;
  readonly microbatch: number;
}

/** What a rank's stages hand on in a pass, looked through for NaN and infinities; remembers the earliest stage with one. */
export class FirstFault {
  #found: Fault | null = null;

  /** Looks at what a stage has made for others, which is on the device. */
  look(node: Node, place: Fault): void {
    const isEarlier = this.#found === null || place.stage < this.#found.stage;
    if (!isEarlier || dtypes[node.dtype].kind !== 'float' || node.value?.kind !== 'device') return;
    const bytes = currentSession().backend.map(node.value.storage.buffer);
    if (bytes !== undefined && !allFinite(bytes, node.dtype)) this.#found = place;
  }

  clear(): void {
    this.#found = null;
  }

  /** The earliest of all ranks: a collective. Null where all that stages hand on is finite. */
  async ofAll(group: ProcessGroup): Promise<Fault | null> {
    const { stage, microbatch } = this.#found ?? none;
    const all = new Int32Array(2 * group.size);
    await group.allGather(
      { bytes: new Uint8Array(Int32Array.of(stage, microbatch).buffer), dtype: 'i32' },
      { bytes: new Uint8Array(all.buffer), dtype: 'i32' },
    );
    let first: Fault = none;
    for (let rank = 0; rank < group.size; rank++) {
      const [each = none.stage, at = 0] = all.subarray(2 * rank);
      if (each < first.stage) first = { stage: each, microbatch: at };
    }
    return first === none ? null : first;
  }
}

const none: Fault = { stage: 2 ** 31 - 1, microbatch: 0 };

/** Whether no float among the bytes has the exponent of NaN and infinities. */
function allFinite(bytes: Uint8Array, dtype: DType): boolean {
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === 'f32' || dtype === 'f64') {
    const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
    const exponent = dtype === 'f32' ? 0x7f800000 : 0x7ff00000;
    const [first, step] = dtype === 'f32' ? [0, 1] : [1, 2];
    for (let at = first; at < words.length; at += step) {
      if (((words[at] ?? 0) & exponent) === exponent) return false;
    }
    return true;
  }
  const words = new Uint16Array(buffer, byteOffset, byteLength / 2);
  const exponent = dtype === 'bf16' ? 0x7f80 : 0x7c00;
  return words.every((word) => (word & exponent) !== exponent);
}
