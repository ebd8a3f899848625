import { onnxGraph } from '../../emit/onnx/lower/lower-partition.ts';
import { onnxComputes } from '../../emit/onnx/lower/lowerings.ts';
import { CompiledSession } from './compiled-session.ts';
import { onnxSlots } from '../../emit/onnx/onnx-slots.ts';
import { withPreferredInstructions } from './preferred-instructions.ts';
import { hasGivenAttributes, sessionModel, sizeInputs } from '../../emit/onnx/session-model.ts';
import type { Sessions } from './sessions.ts';
import type {
  FallbackEngine,
  FallbackPartition,
  PlannedOnnx,
} from '../../plan/partition/fallback-engine.ts';
import {
  describePartition,
  formatPartition,
  type CompiledPartition,
} from '../../program/partition.ts';

/** ONNX Runtime as what computes the instructions that kernels do not compute. */
export function onnxFallback(sessions: Sessions): FallbackEngine {
  return {
    kind: 'onnx',
    isChoice: onnxComputes,
    withPreferred: withPreferredInstructions,
    plan: (program, partition): PlannedOnnx => ({
      kind: 'onnx',
      graph: onnxGraph(program, partition),
      slots: onnxSlots(program.values, partition),
      description: describePartition(partition),
    }),
    takesSizes: (pattern) => !hasGivenAttributes(own(pattern).graph),
    acquire: async (given, known) => {
      const pattern = own(given);
      const describe = (): string => formatPartition(own(known).description);
      const lease = sessions.acquire(sessionModel(pattern.graph), describe);
      return {
        link: (memory, partition): CompiledPartition => {
          const { graph, slots, description } = own(partition);
          const sizes = sizeInputs(graph, pattern.graph);
          return new CompiledSession(memory, slots, sizes, lease.session, () =>
            formatPartition(description),
          );
        },
        release: () => lease.release(),
      };
    },
  };
}

function own(partition: FallbackPartition): PlannedOnnx {
  if (partition.kind === 'onnx') return partition;
  throw new RangeError(`a partition of kind ${partition.kind} is no session`);
}
