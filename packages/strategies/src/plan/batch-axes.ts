/** The mesh axes over which a batch is shared out. */
export interface BatchAxes {
  readonly axis: string;
  /** A mesh axis whose ranks hold the same states, and have other batches (hybrid sharding). Default: none. */
  readonly replicas?: string | undefined;
}

/** The names of these axes, that of `axis` first. */
export function batchAxesOf({ axis, replicas }: BatchAxes): readonly string[] {
  return replicas === undefined ? [axis] : [axis, replicas];
}
