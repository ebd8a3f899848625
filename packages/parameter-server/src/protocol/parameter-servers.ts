import type { RequestConnection } from '@shardwise/core/extend';

/**
 * What a worker has seen of a step on parameter servers. With several servers, each number is the largest of theirs,
 * and `isLate` is true if it is true for one of them.
 */
export interface ServerStep {
  /** The number of steps by which the worker is ahead of the slowest worker. */
  readonly lead: number;
  /** The number of updates of other workers after the worker read the values and before its gradient arrived. */
  readonly staleness: number;
  /** The milliseconds that the worker waited for other workers. */
  readonly waitedMs: number;
  /** Whether the worker's gradient came too late for the step and was dropped. */
  readonly isLate: boolean;
}

/** The parameter servers of a run, as workers reach them. */
export interface ParameterServers {
  /** The number of servers. */
  readonly size: number;
  /** Whether each server has a copy of the previous server's data. Default: false. */
  readonly areReplicated?: boolean;
  /** Makes a new connection to a server. Rejects with CollectiveError if it cannot be reached. */
  connect(server: number): Promise<RequestConnection>;
  /**
   * Registers a function by which a worker tells the servers that it leaves, when it closes its part of the
   * run.
   */
  whenClosed(leave: () => Promise<void>): void;
  /** Called after each step of this worker. */
  onStep?: (step: ServerStep) => void;
}
