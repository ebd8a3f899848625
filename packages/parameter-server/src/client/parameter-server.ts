import {
  checkOptions,
  ConfigError,
  type Layout,
  LayoutError,
  option,
  type OptionRules,
  type Strategy,
} from '@shardwise/core/extend';
import type { ParameterServers } from '../protocol/parameter-servers.ts';
import { type ModelPlan, requireAxis, Step } from '@shardwise/strategies';
import { serveParameters } from './serve-parameters.ts';
import { type Consistency, consistencyRule } from '../protocol/consistency.ts';

/** Options of `parameterServer`. */
export interface ParameterServerStrategyOptions {
  /** The servers: `context.servers` of a run with `--servers`. */
  readonly servers: ParameterServers;
  /** When an update enters the parameters, and which workers wait for others. Default: 'synchronous'. */
  readonly consistency?: Consistency;
  /** The dtype to which gradients are rounded before they are sent. Servers add and update in f32. Default: f32. */
  readonly compress?: 'f16' | 'bf16';
  /**
   * The size of a bucket of gradients. It is sent during the backward pass as soon as it has so many bytes. The first
   * bucket has at most 1 MiB. Default: 4 MiB.
   */
  readonly bucketBytes?: number;
  /** The mesh axis whose ranks are the workers. Default: `dp`. */
  readonly axis?: string;
  /** Milliseconds that a server may be unreachable before a step fails. Default: 30,000. */
  readonly timeoutMs?: number;
}

const optionRules: OptionRules<ParameterServerStrategyOptions> = {
  servers: option.required(option.object('the servers of a run, as init() gives them')),
  consistency: option.checkedLater(),
  compress: option.oneOf('f16', 'bf16'),
  bucketBytes: option.positive,
  axis: option.axisName,
  timeoutMs: option.positive,
};

/** Small enough for several buckets in a backward pass, and large enough not to cut the pass into many programs. */
const BUCKET_BYTES = 4 << 20;

/**
 * Training with parameter servers, which hold the parameters and the states of the optimizer. Each worker has
 * its own batch. `optimizer.step()` pushes its gradients to the servers, which update by this optimizer, and
 * pulls the parameters. Throws ConfigError for options out of range, and for a run without servers.
 */
export function parameterServer(options: ParameterServerStrategyOptions): Strategy {
  if (options?.servers === undefined) throw noServersError();
  checkOptions('parameterServer', options, optionRules);
  const { servers, axis = 'dp', timeoutMs = 30_000, bucketBytes = BUCKET_BYTES } = options;
  const consistency = consistencyRule(options.consistency ?? 'synchronous');
  if (servers.size === 0) throw noServersError();
  const { compress } = options;
  if (compress !== undefined && consistency.kind === 'elastic') throw compressError(compress);
  return {
    specificationVersion: 1,
    name: 'parameterServer',
    plan({ parameters }, axes): ModelPlan {
      const workers = requireAxis('parameterServer', axes, axis);
      const other = axes.find(({ name, size }) => name !== axis && size > 1);
      if (other !== undefined) throw axisError(axis, other.name);
      if (consistency.kind === 'synchronous' && consistency.backupWorkers >= workers) {
        throw tooManyBackups(consistency.backupWorkers, workers);
      }
      return {
        strategy: 'parameterServer',
        axes,
        batch: { dims: [[axis]], partial: [] },
        parameters: parameters.map((parameter) => {
          // Each worker has gradients of its own, and the values of the time at which it pulled them. So both vary
          // between ranks.
          const layout: Layout = {
            dims: parameter.shape.map(() => []),
            partial: [],
            varying: [axis],
          };
          return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
        }),
        steps: [
          new Step(serveParameters, {
            axis,
            consistency,
            compress,
            bucketBytes,
            timeoutMs,
            servers: () => servers,
          }),
        ],
      };
    },
  };
}

function noServersError(): ConfigError {
  return new ConfigError({
    asked: 'parameterServer()',
    found: 'a run without servers',
    todo: 'Start it by `shardwise run --servers 1 train.ts`, and give parameterServer() the servers of init()',
  });
}

function compressError(compress: string): ConfigError {
  return new ConfigError({
    asked: `parameterServer() with compress: '${compress}' and elastic averaging`,
    found: 'elastic averaging, whose workers send parameters and no gradients',
    todo: 'Leave compress out, or use another consistency',
  });
}

function axisError(axis: string, other: string): LayoutError {
  return new LayoutError(
    {
      asked: `parameterServer() over '${axis}'`,
      found: `the mesh also has the axis '${other}'`,
      todo: 'Use a mesh whose only axis is that of the workers',
    },
    { axis, other },
  );
}

function tooManyBackups(backupWorkers: number, workers: number): ConfigError {
  return new ConfigError(
    {
      asked: `parameterServer() with ${backupWorkers} backup workers`,
      found: `${workers} workers, so that a step would wait for no worker`,
      todo: `Give at most ${workers - 1}`,
    },
    { backupWorkers, workers },
  );
}
