import {
  axisOf,
  ConfigError,
  currentSession,
  elementCount,
  type Parameter,
} from '@shardwise/core/extend';
import type { ParameterServers } from '../protocol/parameter-servers.ts';
import { requireOneStep, type StepKind } from '@shardwise/strategies';
import type { ConsistencyRule } from '../protocol/consistency.ts';
import { keyRanges } from '../protocol/key-ranges.ts';
import { ServerUpdater } from './server-updater.ts';

/** Lets parameter servers hold the parameters and carry out the steps of optimizers. */
export interface ServeParameters {
  /** The ranks of this axis are the workers. */
  readonly axis: string;
  readonly consistency: ConsistencyRule;
  readonly compress: 'f16' | 'bf16' | undefined;
  readonly bucketBytes: number;
  readonly timeoutMs: number;
  /** How the servers are reached. This is not printed. */
  readonly servers: () => ParameterServers;
}

/** The kind of the step `ServeParameters`. */
export const serveParameters: StepKind<ServeParameters> = {
  name: 'serve',
  // Messages to and from servers are no collectives, because workers need not send them together.
  collectives: () => [],
  explain({ servers, compress }, { parameters }) {
    const bytes = parameters.map(({ shape }) => elementCount(shape) * 4);
    const ranges = keyRanges(bytes, servers().size);
    const names = inColumn(ranges.map((_, server) => `server ${server}`));
    const counts = inColumn(ranges.map(({ start, end }) => `${end - start} parameters`));
    const lines = ranges.map(({ start, end }, server) => {
      const pulled = bytes.slice(start, end).reduce((sum, each) => sum + each, 0);
      const pushed = compress === undefined ? pulled : pulled / 2;
      return `${names[server]}  ${counts[server]}  ${pushed} bytes pushed, ${pulled} pulled`;
    });
    return lines.join('\n');
  },
  check(_, context) {
    requireOneStep(context.plan, serveParameters);
    const other = context.parameters.find(([, { dtype }]) => dtype !== 'f32');
    if (other !== undefined) throw dtypeError(...other);
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

/** Makes texts as long as the longest one. */
function inColumn(texts: readonly string[]): readonly string[] {
  const width = Math.max(...texts.map(({ length }) => length));
  return texts.map((text) => text.padEnd(width));
}

function dtypeError(parameter: string, { dtype }: Parameter): ConfigError {
  return new ConfigError(
    {
      asked: `to serve the parameter '${parameter}' of ${dtype}`,
      found: 'servers keep and update f32 values',
      todo: 'Build the model in f32',
    },
    { parameter, dtype },
  );
}
