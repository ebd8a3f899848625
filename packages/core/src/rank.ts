import { rankState } from './ambient.ts';
import { forgetCollectives } from './graph/program-order.ts';
import { forgetPending } from './realize/pending/pending.ts';
import { DeviceSession } from './realize/run/device-session.ts';
import type { Session } from './realize/session.ts';
import { forgetValues, smallValues } from './realize/pending/small-values.ts';
import type { PlaceOf } from './layout/chunks.ts';
import type { Backend } from './spec/backend.ts';
import { ConfigError } from './spec/errors.ts';
import type { Mesh } from './spec/mesh.ts';
import type { CallOrder } from './spec/process-group.ts';
import { axisOf, LocalMesh } from './mesh.ts';
import { checkOptions } from './base/check-options.ts';
import { requireVersion } from './base/require-version.ts';
import * as option from './base/option-rules.ts';
import type { OptionRules } from './base/option-rules.ts';

/** The device on which the tensors of a rank are computed, and the mesh of its group. */
export interface Rank {
  readonly device: Backend;
  /** Default: a world of one rank. */
  readonly mesh?: Mesh;
}

const rankRules: OptionRules<Rank> = {
  device: option.required(option.object('a backend, as await cpu()')),
  mesh: {
    fits: (value): value is Mesh => option.object().fits(value) && 'axes' in value,
    expected: 'a mesh',
  },
};

/**
 * Makes this thread a rank. Its tensors are computed on the given device from now on. Values that an earlier rank of
 * the thread has not computed are dropped.
 */
export function setRank(rank: Rank): void {
  checkOptions('setRank', rank, rankRules);
  requireVersion('setRank with a device', rank.device, 1);
  if (rankState.session !== null) {
    forgetPending();
    forgetCollectives();
    forgetValues(smallValues());
  }
  rankState.tracesCallSites = true;
  const mesh = rank.mesh ?? new LocalMesh();
  rankState.session = new DeviceSession(rank.device, mesh);
  for (const { name } of mesh.axes) mesh.group(name).orderCalls?.(issueInOrder);
}

/** Issues a call that the program makes outside of the graph. */
const issueInOrder: CallOrder = (issue) => rankState.session?.issueInOrder(issue) ?? issue();

/** Whether calls of this rank's session are under way. False before setRank. */
export function isComputing(): boolean {
  return rankState.session?.isComputing ?? false;
}

/** The session of this rank. Throws ConfigError before setRank. */
export function currentSession(): Session {
  const { session } = rankState;
  if (session !== null) return session;
  throw new ConfigError({
    asked: 'to compute a tensor',
    found: 'a rank without a device',
    todo: "Call `await init()` from 'shardwise', or `setRank({ device: await cpu() })` first",
  });
}

/** This rank's place on an axis of its mesh. Throws ConfigError for an unknown axis. */
export const ownPlace: PlaceOf = (axis) => axisOf(currentSession().mesh, axis);
