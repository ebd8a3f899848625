import {
  axisOf,
  currentSession,
  elementCount,
  type ParameterServers,
} from '@shardwise/core/extend';
import type { ConsistencyRule } from '../../parameter-server/consistency.ts';
import { keyRanges } from '../../parameter-server/key-ranges.ts';
import { ServerUpdater } from '../../parameter-server/server-updater.ts';
import { requireFloat32 } from '../../mixed-precision/require-float32.ts';
import { textTable } from '../text-table.ts';
import { requireOneStep } from '../agreeing-steps.ts';
import type { StepKind } from '../step.ts';

/** Lets parameter servers hold the parameters and carry out the steps of optimizers. */
export interface Serve {
  /** The ranks of this axis are the workers. */
  readonly axis: string;
  readonly consistency: ConsistencyRule;
  readonly compress: 'f16' | 'bf16' | undefined;
  readonly bucketBytes: number;
  readonly timeoutMs: number;
  /** How the servers are reached. This is not printed. */
  readonly servers: () => ParameterServers;
}

/** The kind of the step `Serve`. */
export const serve: StepKind<Serve> = {
  name: 'serve',
  // Messages to and from servers are no collectives, because workers need not send them together.
  collectives: () => [],
  explain({ servers, compress }, { parameters }) {
    const bytes = parameters.map(({ shape }) => elementCount(shape) * 4);
    const rows = keyRanges(bytes, servers().size).map(({ start, end }, server) => {
      const own = bytes.slice(start, end).reduce((sum, each) => sum + each, 0);
      return [
        `server ${server}`,
        `${end - start} parameters`,
        `${compress === undefined ? own : own / 2} bytes pushed, ${own} pulled`,
      ];
    });
    return textTable(rows);
  },
  check(_, context) {
    requireOneStep(context.plan, serve);
    for (const [, { part }] of context.parameters) requireFloat32('to serve', part);
  },
  async apply({ axis, consistency, compress, bucketBytes, timeoutMs, servers }, context) {
    const { rank: worker, size: workers } = axisOf(currentSession().mesh, axis);
    const updater = new ServerUpdater({
      servers: servers(),
      consistency,
      worker,
      workers,
      parameters: context.parameters,
      timeoutMs,
      compress,
      bucketBytes,
    });
    await updater.start();
    servers().whenClosed(() => updater.leave());
    context.hooks.push({ detach: () => updater.detach() });
  },
};
