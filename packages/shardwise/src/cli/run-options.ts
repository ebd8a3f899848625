import type { RankForm } from '../launcher/transports/transport-choice.ts';
import type { DeviceName } from '../environment/device-name.ts';

/** Least and greatest number of hosts. */
export interface NodeRange {
  readonly min: number;
  readonly max: number;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** `shardwise run`, parsed; what is undefined, the environment or a default decides. */
export interface RunCommandOptions {
  readonly script: string;
  /** The script's own arguments. */
  readonly args: readonly string[];
  /** Ranks of this host. */
  readonly nproc: number | undefined;
  /** Where ranks compute; undefined: on what their script says, else the CPU. */
  readonly device: DeviceName | undefined;
  /** Parameter servers beside the ranks; undefined: none. */
  readonly servers: number | undefined;
  /** On how many servers each range is; undefined: on one. */
  readonly serverReplicas: number | undefined;
  /** How often each worker of servers is started again by itself; undefined: ranks start again together. */
  readonly workerRestarts: number | undefined;
  /** How long it is from one snapshot of a server to the next, at least; undefined: 10 s. */
  readonly snapshotEveryMs: number | undefined;
  readonly ranks: RankForm | undefined;
  readonly nodes: NodeRange | undefined;
  readonly nodeRank: number | undefined;
  readonly rendezvous: Endpoint | undefined;
  readonly jobId: string | undefined;
  readonly maxRestarts: number | undefined;
  readonly secretFile: string | undefined;
  readonly joinTimeoutMs: number | undefined;
  readonly lastCallMs: number | undefined;
  readonly runDirectory: string | undefined;
  readonly resumeDirectory: string | undefined;
  readonly report: boolean;
  readonly plain: boolean;
}
