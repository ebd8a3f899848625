import { canRecordCalls, createMesh, limitCalls } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import {
  type Backend,
  checkOptions,
  type Mesh,
  type MeshAxis,
  option,
  type OptionRules,
  type ProcessGroup,
  rankState,
  requireVersion,
} from '@shardwise/core/extend';
import { recordFlight } from '../blame/record-flight.ts';
import { type ProfileOptions, profilePlan } from '../profile/profile-options.ts';
import { measureRoofline } from '../profile/measure-host.ts';
import { createRankContext } from './create-rank-context.ts';
import { findHost } from './find-host.ts';
import type { RankContext } from './rank-context.ts';
import { rankDevice } from './rank-device.ts';
import { createUtilization, type UtilizationOptions } from './utilization.ts';

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

type MeshAxes = readonly MeshAxis[] | ((worldSize: number) => readonly MeshAxis[]);

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

/** The mesh axis of the world, for scripts that make no mesh. */
const AXIS = 'dp';

const STACK_FRAMES = 50;

/**
 * Makes this thread a rank. Under `shardwise run` it is a rank of the run. In a process that torchrun, mpirun
 * or srun has started, or that has their variables, it is the rank that these say. Otherwise (`node train.ts`)
 * it is the only rank. Without the launcher of this library, rank 0 prints its metrics as plain lines. From now
 * on, tensors are computed on the rank's device.
 */
export async function init(options: InitOptions = {}): Promise<RankContext> {
  checkOptions('init', options, initRules);
  if (options.device !== undefined) requireVersion('init with a device', options.device, 1);
  if (options.group !== undefined) requireVersion('init with a group', options.group, 1);
  // Frames of the library lie between an error and the line of the script, so stacks must be long enough.
  Error.stackTraceLimit = Math.max(Error.stackTraceLimit, STACK_FRAMES);
  const utilization = await createUtilization(options.utilization);
  const toProfile = profilePlan(options.profile, process.env);
  const host = await findHost(options.group);
  const joined = await host.join();
  const { group, arena } = joined;
  if (options.timeoutMs !== undefined) limitCalls(group, options.timeoutMs);
  let runDirectory: string | undefined;
  // The recorder must be there before the first call of the group, which may be the one that shares the run's
  // directory.
  if (host.isRecorded && canRecordCalls(group))
    recordFlight(group, () => runDirectory, process.env);
  const surroundings = await host.enter(joined);
  runDirectory = surroundings.runDirectory;
  const device = await rankDevice(options.device, arena, process.env);
  const mesh = await meshOf(group, options.mesh);
  setRank({ device, mesh });
  const { rank, localRank, transport } = host;
  return createRankContext({
    rank,
    localRank,
    transport,
    ...surroundings,
    group,
    device,
    mesh,
    utilization,
    profile: toProfile && {
      plan: toProfile,
      roofline: toProfile.peak ?? (await measureRoofline(device)),
    },
    memoryBytes: () => device.usage?.().bytesInUse,
  });
}

function meshOf(group: ProcessGroup, axes: MeshAxes | undefined): Mesh | Promise<Mesh> {
  if (axes === undefined) return new LineMesh(AXIS, group);
  const { standsFor } = rankState;
  const given = typeof axes === 'function' ? axes(standsFor ?? group.size) : axes;
  // The one rank of `shardwise verify` stands for the ranks of a mesh of these axes.
  return createMesh(
    group,
    standsFor === undefined ? given : given.map(({ name }) => ({ name, size: 1 })),
  );
}
