import type { CallOptions, Mesh } from '@shardwise/core/spec';

/** A mesh that can be cut and merged, as PyTorch's DeviceMesh. */
export interface DeviceMesh extends Mesh {
  /** The same groups along some of the axes, in the order given; `mesh['dp', 'tp']` in PyTorch. */
  select(...axes: readonly string[]): DeviceMesh;
  /**
   * This mesh with one more name, for several of its axes as if they were one, the last of them
   * fastest; its `axes` stay. A collective: all ranks call it with the same names.
   */
  flatten(axes: readonly string[], name: string, options?: CallOptions): Promise<DeviceMesh>;
}
