import { nearestName } from '@shardwise/core/extend';
import { ConfigError, profiler } from 'shardwise';
import type { EngineContext } from './engine.ts';
import type { Settings } from './settings.ts';

type Operation = NonNullable<profiler.CommsLoggerOptions['profOps']>[number];

/** The operations of DeepSpeed's comms_logger. Variants of an operation are one here. */
const operations: Readonly<Record<string, Operation>> = {
  all_reduce: 'allReduce',
  inference_all_reduce: 'allReduce',
  all_reduce_coalesced: 'allReduce',
  all_gather: 'allGather',
  all_gather_into_tensor: 'allGather',
  all_gather_base: 'allGather',
  all_gather_object: 'allGather',
  all_gather_coalesced: 'allGather',
  reduce_scatter: 'reduceScatter',
  reduce_scatter_tensor: 'reduceScatter',
  reduce_scatter_base: 'reduceScatter',
  all_to_all: 'allToAll',
  all_to_all_single: 'allToAll',
  broadcast: 'broadcast',
  broadcast_object_list: 'broadcast',
  reduce: 'reduce',
  gather: 'gather',
  scatter: 'scatter',
  send: 'send',
  isend: 'send',
  recv: 'recv',
  irecv: 'recv',
  barrier: 'barrier',
  monitored_barrier: 'barrier',
};

/** The logger of the section comms_logger, if it is enabled. Throws ConfigError for an operation that DeepSpeed does not log. */
export function commsLoggerOf(
  { comms_logger: section }: Settings,
  { group }: EngineContext,
): profiler.CommsLogger | undefined {
  if (!section.enabled) return undefined;
  const profOps = section.prof_ops.map((name, index): Operation => {
    const operation = Object.hasOwn(operations, name) ? operations[name] : undefined;
    if (operation !== undefined) return operation;
    const names = Object.keys(operations);
    const nearest = nearestName(name, names);
    throw new ConfigError(
      {
        asked: `comms_logger.prof_ops[${index}] ${name}`,
        found: 'no operation that is logged',
        todo: nearest === undefined ? `Write one of ${names.join(', ')}` : `Write ${nearest}`,
      },
      { path: `comms_logger.prof_ops.${index}`, nearest },
    );
  });
  return profiler.commsLogger(group, {
    verbose: section.verbose,
    profAll: section.prof_all,
    profOps: [...new Set(profOps)],
    debug: section.debug,
  });
}
