import type { Emitter, Place } from './emitter.ts';

/** What a kernel's text is written with. */
export interface KernelScope {
  readonly emitter: Emitter;
  /** Where a value that the kernel reads or writes lies. */
  readonly place: (id: number) => Place;
  /** A name for the i-th of the kernel's numbers. */
  readonly number: (i: number) => string;
}

/** A computation of a device: the values that it makes in memory, of values in memory. */
export interface Kernel {
  /** The instructions that it carries out, for messages. */
  readonly label: string;
  /** Values in memory that it reads, and those that it writes. */
  readonly reads: readonly number[];
  readonly writes: readonly number[];
  readonly workgroup: readonly [number, number];
  /** Groups along three dims. */
  readonly groups: readonly [number, number, number];
  /** The check that it is, by number: it is left out where what it looks for cannot be. */
  readonly check?: number;
  /** Terms that it adds up, where these are more than the words that it reads. */
  readonly terms?: number;
  /** Numbers that are not part of the text, so that kernels of other sizes share it. */
  readonly numbers: readonly number[];
  /** Declarations of workgroup memory. */
  readonly shared?: string;
  /** The body of the entry point, whose arguments are `group`, `groups` and `thread` (all u32 vectors), and `lane`. */
  readonly body: (scope: KernelScope) => void;
  /** Elements that it makes at their own places, of pointwise kernels: they may be joined. */
  readonly pointwise?: { readonly roots: readonly number[]; readonly count: number };
  /** The product that it makes, of a kernel that makes nothing else: pointwise kernels may become its epilogue. */
  readonly product?: number;
}

const mostGroups = 65_535;

/** Groups for a number of them, which may be more than one dim takes. */
export function spread(count: number): [number, number, number] {
  if (count <= mostGroups) return [count, 1, 1];
  const rows = Math.ceil(count / mostGroups);
  return [Math.ceil(count / rows), rows, 1];
}
