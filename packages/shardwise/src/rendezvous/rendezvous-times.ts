/** How long hosts wait for each other. */
export interface RendezvousTimes {
  /** For more hosts, once the least number has come. */
  readonly lastCallMs: number;
  /** For the least number of hosts. */
  readonly joinTimeoutMs: number;
  /** Between two signs of life of a host. */
  readonly heartbeatMs: number;
  /** After so long without one, a host counts as lost. */
  readonly heartbeatLimitMs: number;
}

/** Those of torchrun, but for its heartbeats, which come every 5 s. */
export const defaultTimes: RendezvousTimes = {
  lastCallMs: 30_000,
  joinTimeoutMs: 600_000,
  heartbeatMs: 250,
  heartbeatLimitMs: 2000,
};
