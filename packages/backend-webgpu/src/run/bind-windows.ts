import { BINDING_ALIGNMENT_BYTES } from '../device/gpu-constants.ts';
import type { Windows } from '../emit/kernel-text.ts';

/** The bytes of a buffer that a dispatch uses for one value. */
export interface Used {
  readonly memory: GPUBuffer;
  /** Where the value begins in the buffer. */
  readonly byteOffset: number;
  /** The dispatch uses bytes `from` to `to` of the buffer, both counted from its beginning. */
  readonly from: number;
  readonly to: number;
}

/** The bindings of a dispatch for some values. */
export interface BoundWindows {
  readonly bindings: readonly GPUBufferBinding[];
  /** For each value: the numbers of its bindings, and in `offsets` where it begins in the first of them, in words. */
  readonly windows: readonly Windows[];
  readonly offsets: readonly number[];
}

interface Stretch {
  from: number;
  to: number;
  /** Whether this is a part of one value that is larger than a binding. */
  readonly isPiece: boolean;
}

/**
 * Binds each buffer as a whole if it is small enough, and otherwise binds windows of it. Windows of a buffer that is
 * written must not overlap. Values that lie close together therefore share a window, and a value that is larger than a
 * window has several.
 */
export function bindWindows(used: readonly Used[], bindingBytes: number): BoundWindows {
  const stretches = new Map<GPUBuffer, Stretch[]>();
  for (const memory of new Set(used.map((each) => each.memory))) {
    const ofMemory = used.filter((each) => each.memory === memory);
    stretches.set(
      memory,
      memory.size <= bindingBytes
        ? [{ from: 0, to: memory.size, isPiece: false }]
        : windowsOf(ofMemory, bindingBytes),
    );
  }
  const all = [...stretches].flatMap(([memory, own]) => own.map((window) => ({ memory, window })));
  const located = used.map(({ memory, byteOffset, from, to }) => {
    const own = all.flatMap(({ memory: other, window }, number) =>
      other === memory && window.from < to && from < window.to ? [{ number, window }] : [],
    );
    const [first] = own;
    return {
      windows: own.map(({ number }) => number),
      offset: (byteOffset - (first?.window.from ?? 0)) / 4,
    };
  });
  return {
    bindings: all.map(({ memory, window: { from, to } }) =>
      from === 0 && to === memory.size
        ? { buffer: memory }
        : { buffer: memory, offset: from, size: to - from },
    ),
    windows: located.map(({ windows }) => windows),
    offsets: located.map(({ offset }) => offset),
  };
}

function windowsOf(used: readonly Used[], bindingBytes: number): Stretch[] {
  const windows: Stretch[] = [];
  for (const { from, to } of used.toSorted((a, b) => a.from - b.from || b.to - a.to)) {
    const last = windows.at(-1);
    const start = from - (from % BINDING_ALIGNMENT_BYTES);
    if (last !== undefined && to <= last.to) continue;
    if (last !== undefined && !last.isPiece && to - last.from <= bindingBytes) {
      last.to = to;
      continue;
    }
    const isPiece = to - start > bindingBytes;
    for (let piece = start; piece < to; piece += bindingBytes)
      windows.push({ from: piece, to: Math.min(to, piece + bindingBytes), isPiece });
  }
  return windows;
}
