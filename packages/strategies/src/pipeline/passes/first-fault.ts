import {
  currentSession,
  type DType,
  dtypes,
  type Node,
  type ProcessGroup,
} from '@shardwise/core/extend';

/** The stage and microbatch whose output is not finite. */
export interface Fault {
  readonly stage: number;
  readonly microbatch: number;
}

/**
 * Looks for NaN and infinities in the values that a rank's stages hand on in a pass. Remembers the earliest stage that
 * has one.
 */
export class FirstFault {
  #found: Fault | null = null;

  /** Checks a value that a stage has made for others. Only values on the device are checked. */
  look(node: Node, place: Fault): void {
    const isEarlier = this.#found === null || place.stage < this.#found.stage;
    if (!isEarlier || dtypes[node.dtype].kind !== 'float' || node.value?.kind !== 'device') return;
    const bytes = currentSession().backend.map(node.value.storage.buffer);
    if (bytes !== undefined && !allFinite(bytes, node.dtype)) this.#found = place;
  }

  clear(): void {
    this.#found = null;
  }

  /** Returns the earliest fault of all ranks, or null if there is none. It is a collective. */
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

/** Returns whether no float among the bytes has the exponent of NaN and infinities. */
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
