/** How long hosts wait for each other. */
export interface RendezvousTimes {
  /** How long hosts wait for more hosts, once the least number has come. */
  readonly lastCallMs: number;
  /** How long hosts wait for the least number of hosts. */
  readonly joinTimeoutMs: number;
  /** The time between two signs of life of a host. */
  readonly heartbeatMs: number;
  /** After so long without a sign of life, a host counts as lost. */
  readonly heartbeatLimitMs: number;
}

/** The times of torchrun, apart from its heartbeats, which come every 5 s. */
export const defaultTimes: RendezvousTimes = {
  lastCallMs: 30_000,
  joinTimeoutMs: 600_000,
  heartbeatMs: 250,
  heartbeatLimitMs: 2000,
};
