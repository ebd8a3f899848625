import type { Emitter, Place } from './emitter.ts';

/** What a kernel's text is written with. */
export interface KernelScope {
  readonly emitter: Emitter;
  /** Where a value that the kernel reads or writes lies. */
  readonly place: (id: number) => Place;
  /** A name for the i-th of the kernel's numbers. */
  readonly number: (i: number) => string;
}

/** How what a kernel makes lies along its groups of threads. */
export interface Along {
  /** The dim of the groups along which they make consecutive elements, or 'all' where those of x and y do, row by row. */
  readonly dim: 'all' | 1 | 2;
  /** Elements of each value that it writes, for each group along the dim. */
  readonly elements: number;
  /** The value whose instruction it carries out, of kernels that are not pointwise, and elements of those inputs that lie likewise. */
  readonly root?: number;
  readonly inputs?: ReadonlyMap<number, number>;
}

/** Slices of the groups of a kernel: dispatches that have other bindings. */
export interface Slices {
  readonly dim: 1 | 2;
  /** Groups of a slice along the dim; the last one may have fewer. */
  readonly groups: number;
  /** Bytes for each group along the dim, of values of which a slice needs no others. */
  readonly bytes: ReadonlyMap<number, number>;
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
  readonly along?: Along;
  /** Where a value is larger than a binding. */
  readonly slices?: Slices;
  /** The product that it makes, of a kernel that makes nothing else: pointwise kernels may become its epilogue. */
  readonly product?: number;
}

/** Of one dim of a dispatch. */
export const mostGroups = 65_535;

/** Groups for a number of them, which may be more than one dim takes. */
export function spread(count: number): [number, number, number] {
  if (count <= mostGroups) return [count, 1, 1];
  const rows = Math.ceil(count / mostGroups);
  return [Math.ceil(count / rows), rows, 1];
}
