import type { RankForm } from '../launcher/transports/transport-choice.ts';
import type { DeviceName } from '../environment/device-name.ts';

/** The least and the greatest number of hosts. */
export interface NodeRange {
  readonly min: number;
  readonly max: number;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** The parsed options of `shardwise run`. The environment or a default decides what is undefined. */
export interface RunCommandOptions {
  readonly script: string;
  /** The arguments of the script. */
  readonly args: readonly string[];
  /** The number of ranks of this host. */
  readonly nproc: number | undefined;
  /** The least number of ranks that go on without one that is lost. If undefined, all ranks start again. */
  readonly minNproc: number | undefined;
  /** The device of the ranks. If undefined, the script decides, and otherwise it is the CPU. */
  readonly device: DeviceName | undefined;
  /** The number of parameter servers beside the ranks. Undefined means none. */
  readonly servers: number | undefined;
  /** The number of servers that keep each range. Undefined means one. */
  readonly serverReplicas: number | undefined;
  /** How often each worker of servers is started again by itself. If undefined, all ranks start again together. */
  readonly workerRestarts: number | undefined;
  /** The least time between two snapshots of a server. Undefined means 10 s. */
  readonly snapshotEveryMs: number | undefined;
  /** The module that makes the transport: a path, or the name of a package. Undefined: the launcher chooses one. */
  readonly transport: string | undefined;
  /** How long ranks may take to connect by that transport. Undefined means 60 s. */
  readonly transportTimeoutMs: number | undefined;
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
  /** Where checkpoints go: a path, or an address such as `s3://bucket/run`. Undefined: below the run directory. */
  readonly checkpointDirectory: string | undefined;
  readonly resumeDirectory: string | undefined;
  /** The sinks of the figures of steps, besides metrics.jsonl: names, and paths of modules. */
  readonly metrics: readonly string[];
  /** The file of a plan, with which the run is compared when it ends. */
  readonly plan?: string | undefined;
  /** The steps that `shardwise profile` records, after which it ends the run. Undefined for `shardwise run`. */
  readonly profileSteps?: readonly [from: number, to: number] | undefined;
  readonly report: boolean;
  readonly plain: boolean;
}
