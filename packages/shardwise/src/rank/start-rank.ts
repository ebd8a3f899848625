import { canRecordCalls, createMesh, limitCalls } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import { type Mesh, type ProcessGroup, rankState } from '@shardwise/core/extend';
import { recordFlight } from '../blame/record-flight.ts';
import { profilePlan } from '../profile/profile-options.ts';
import { measureRoofline } from '../profile/measure-host.ts';
import { createRankContext, type StartedRank } from './create-rank-context.ts';
import type { InitOptions, MeshAxes } from './init-options.ts';
import type { JoinedRank } from './join/joined-rank.ts';
import { rankDevice } from './rank-device.ts';
import type { RankHost } from './rank-host.ts';
import { createUtilization } from './utilization.ts';

/** The mesh axis of the world, for scripts that make no mesh. */
const AXIS = 'dp';

const STACK_FRAMES = 50;

/** Makes this thread the rank that has joined its world, with the options of `init`. Throws ConfigError. */
export async function startRank(
  host: RankHost,
  joined: JoinedRank,
  options: InitOptions,
): Promise<StartedRank> {
  // Frames of the library lie between an error and the line of the script, so stacks must be long enough.
  Error.stackTraceLimit = Math.max(Error.stackTraceLimit, STACK_FRAMES);
  const utilization = await createUtilization(options.utilization);
  const toProfile = profilePlan(options.profile, process.env);
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
