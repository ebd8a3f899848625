import type { Emitter, Place } from './emitter.ts';

/** What a kernel writes its text with. */
export interface KernelScope {
  readonly emitter: Emitter;
  /** Where a value that the kernel reads or writes lies. */
  readonly place: (id: number) => Place;
  /** A name for the i-th of the kernel's numbers. */
  readonly number: (i: number) => string;
}

/** How the values that a kernel makes lie along its groups of threads. */
export interface Along {
  /**
   * The dim of the groups along which they make consecutive elements. 'all' if the groups of x and y do, in row-major
   * order.
   */
  readonly dim: 'all' | 1 | 2;
  /** How many elements of each value it writes for each group along the dim. */
  readonly elements: number;
  /**
   * Only for kernels that are not pointwise: the value whose instruction the kernel carries out, and in `inputs` the
   * elements for each group of those inputs that lie in the same way.
   */
  readonly root?: number;
  readonly inputs?: ReadonlyMap<number, number>;
}

/** Slices of the groups of a kernel. Each has dispatches and bindings of its own. */
interface Slices {
  readonly dim: 1 | 2;
  /** The groups of a slice along the dim. The last slice may have fewer. */
  readonly groups: number;
  /** Values of which a slice needs only the stretch of its own groups: value -> bytes for each group along the dim. */
  readonly bytes: ReadonlyMap<number, number>;
}

/** A computation of a device, which makes values in memory of values in memory. */
export interface Kernel {
  /** The names of the instructions that it carries out, for messages. */
  readonly label: string;
  /** The values in memory that it reads and writes. */
  readonly reads: readonly number[];
  readonly writes: readonly number[];
  readonly workgroup: readonly [number, number];
  /** The number of groups along three dims. */
  readonly groups: readonly [number, number, number];
  /** The number of the check, if the kernel is one. A run leaves the kernel out if the index cannot be out of range. */
  readonly check?: number;
  /** The terms that it adds up, if they are more than the words that it reads. */
  readonly terms?: number;
  /** Numbers that are passed as parameters. They are not part of the text, so kernels for other sizes share it. */
  readonly numbers: readonly number[];
  /** Declarations of workgroup memory. */
  readonly shared?: string;
  /**
   * Writes the body of the entry point, whose arguments are `group`, `groups` and `thread` (all u32 vectors), and
   * `lane`.
   */
  readonly body: (scope: KernelScope) => void;
  /**
   * Only for pointwise kernels: the values that they make, element by element, and how many elements each has. Such
   * kernels may be joined.
   */
  readonly pointwise?: { readonly roots: readonly number[]; readonly count: number };
  readonly along?: Along;
  /** Only if a value is larger than a binding. */
  readonly slices?: Slices;
  /** The product that the kernel makes, if it makes nothing else. A pointwise kernel may become its epilogue. */
  readonly product?: number;
}

/** The most groups along one dim of a dispatch. */
export const MAX_GROUPS = 65_535;

/** The groups along three dims for a number of groups that may be more than one dim takes. */
export function spread(count: number): [number, number, number] {
  if (count <= MAX_GROUPS) return [count, 1, 1];
  const rows = Math.ceil(count / MAX_GROUPS);
  return [Math.ceil(count / rows), rows, 1];
}
