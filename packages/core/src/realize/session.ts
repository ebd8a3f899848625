import type { Node } from '../graph/node.ts';
import type { PageSource, PageStore } from '../paging/page.ts';
import type { Backend } from '../spec/backend.ts';
import type { TensorStateError } from '../spec/errors.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { CallOrder, ProcessGroup } from '../spec/process-group.ts';

/** Computes these nodes, and no other pending work. */
export type Compute = (nodes: readonly Node[]) => Promise<void>;

/** Work that is done later. Returns whether it has changed values that were computed before it. */
export type Deferred = (compute: Compute) => Promise<boolean>;

export interface EnqueueOptions {
  /** Whether the work calls `takeDeferred` and does the deferred work itself. Default: false. */
  readonly runsDeferred?: boolean;
}

/** Computes a rank's tensors on its device, reads them, and moves them out of it. Calls run one after another. */
export interface Session {
  readonly backend: Backend;
  readonly mesh: Mesh;

  /** Whether calls are under way, so that memory of the device may be changing. */
  readonly isComputing: boolean;

  /**
   * Adds a group to the mesh under `name`. `make` makes it from the group of an axis. It is made once for each name,
   * and later sessions use it again, because groups are few. This call is a collective if `make` is one.
   */
  extendMesh(
    name: string,
    axis: string,
    make: (group: ProcessGroup) => Promise<ProcessGroup>,
  ): Promise<void>;

  /**
   * Issues the collectives that the program has made and that have not been issued. Settles when no call is under way.
   * This includes calls that were not awaited. Throws the error of work that nobody has waited for.
   */
  finish(): Promise<void>;

  /**
   * Issues the collectives that the program has made so far and that have not been issued, and computes what is
   * pending. Call it before this rank waits for another one in any other way than by collectives.
   */
  issueAll(): Promise<void>;

  /** Issues a call of a group that is not in the graph, after all collectives that the program has made before it. */
  readonly issueInOrder: CallOrder;

  /** Does what issueAll does when the program has built nothing for a while. */
  issueSoon(): void;

  /** The number by which ops name a store. */
  numberOf(store: PageStore | PageSource): number;

  /** Computes `nodes` and all pending work. */
  realize(nodes: readonly Node[]): Promise<void>;

  /** Computes a node and copies its bytes. Unless it is resident, its value lies on the host from then on. */
  fetch(node: Node): Promise<Uint8Array>;

  /**
   * Computes a node, which keeps its memory. Returns its bytes in place if the device computes in host memory,
   * otherwise a copy. The bytes are valid until the node is updated or freed.
   */
  view(node: Node): Promise<Uint8Array>;

  /**
   * Moves a leaf's contents to a store. A run that needs them has them on the device only for as long as it needs them.
   * An update brings them back to the device.
   */
  pageOut(leaf: Node, name: string, store: PageStore): Promise<void>;

  /**
   * Begins to compute what is pending now, and returns without waiting. If it fails, the next call that computes
   * something throws the error.
   */
  flush(): void;

  /**
   * Begins work that computes several times, and returns without waiting. Later calls wait until the work is over. If
   * it fails, the next call that computes something throws the error.
   */
  enqueue(work: (compute: Compute) => Promise<void>, options?: EnqueueOptions): void;

  /**
   * Defers work. The next call does it first. If the next call is work with `runsDeferred`, that work does it
   * instead. Throws RangeError if something is deferred already.
   */
  defer(work: Deferred): void;

  /** Takes over the deferred work, for work with `runsDeferred`. Null if nothing is deferred. */
  takeDeferred(): Deferred | null;

  /**
   * Has this rank refuse all further work, because some of the tensors that belong together were updated before `cause`
   * and others were not. Returns the error that every call throws from now on.
   */
  refuse(cause: unknown): TensorStateError;
}
