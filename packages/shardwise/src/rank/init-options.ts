import {
  type Backend,
  checkOptions,
  type MeshAxis,
  option,
  type OptionRules,
  type ProcessGroup,
  requireVersion,
} from '@shardwise/core/extend';
import type { ProfileOptions } from '../profile/profile-options.ts';
import type { UtilizationOptions } from './utilization.ts';

/** Options of `init`. */
export interface InitOptions {
  /**
   * The group of all ranks, if the script connects them itself: `createGroup(transport)`, or a group of another
   * package. Under `shardwise run` it must contain the run's ranks. `context.close()` closes it. Default: a
   * group over the transport that fits how this rank was started.
   */
  readonly group?: ProcessGroup;
  /**
   * The time limit of calls of the group, and of the groups split from it, that have no limit of their own.
   * After it, a call rejects with a CollectiveTimeoutError that names the ranks that have not come. Default:
   * that of the group, or 600,000.
   */
  readonly timeoutMs?: number;
  /**
   * The device that computes this rank's tensors. Default: the one that `--device` names, or `cpu()` over the
   * memory that the ranks share.
   */
  readonly device?: Backend;
  /**
   * The axes of the mesh, as createMesh takes them, or a function that returns them for the number of ranks:
   * `(worldSize) => [{ name: 'dp', size: worldSize / 2 }, { name: 'tp', size: 2 }]`. Default: one axis over all
   * ranks, `dp`.
   */
  readonly mesh?: MeshAxes;
  /**
   * What the use of the device is compared with. Steps are then reported with model FLOPs utilization (MFU), or with
   * tokens per second over those of a paper. Default: they are not.
   */
  readonly utilization?: UtilizationOptions;
  /**
   * The steps of which it is recorded what each operation and module took, such as `{ steps: [10, 12] }`. A page in the
   * folder of the run shows it. Modules that were constructed before have no names there. Default: none, or those that `shardwise profile` asks for.
   */
  readonly profile?: ProfileOptions;
}

export type MeshAxes = readonly MeshAxis[] | ((worldSize: number) => readonly MeshAxis[]);

/** Options of `survive`. */
export interface SurviveOptions extends InitOptions {
  /**
   * The number of ranks that have the state together, and are lost for the others as one: of the parts of `fsdp` or of the
   * stages of a pipeline. A replica is of consecutive ranks, so its axes are the last ones of the mesh, and its number of
   * ranks divides that of all. Default: 1, because each rank of `ddp` has the whole state.
   */
  readonly replicaSize?: number;
}

const initRules: OptionRules<InitOptions> = {
  device: option.object('a backend, as await cpu()'),
  group: option.object('a process group'),
  mesh: option.either(
    option.listOf(option.object<MeshAxis>('an axis, as { name: "tp", size: 2 }')),
    option.callback<(worldSize: number) => readonly MeshAxis[]>(),
  ),
  utilization: option.object('what use of the device is compared with'),
  profile: option.object('what is profiled'),
  timeoutMs: {
    fits: option.positive.fits,
    expected: 'a number of milliseconds above 0 (Infinity: without limit)',
  },
};

const surviveRules: OptionRules<SurviveOptions> = { ...initRules, replicaSize: option.integer(1) };

/** Throws ConfigError for options that `init` does not take. */
export function checkInit(options: InitOptions): void {
  checkOptions('init', options, initRules);
  checkVersions('init', options);
}

/** Throws ConfigError for options that `survive` does not take. */
export function checkSurvive(options: SurviveOptions): void {
  checkOptions('survive', options, surviveRules);
  checkVersions('survive', options);
}

function checkVersions(of: string, options: InitOptions): void {
  if (options.device !== undefined) requireVersion(`${of} with a device`, options.device, 1);
  if (options.group !== undefined) requireVersion(`${of} with a group`, options.group, 1);
}
