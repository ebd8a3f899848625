import type { CompiledPiece } from '../../program/compiled-partition.ts';
import { onnxGraph } from '../../emit/onnx/lower/lower-partition.ts';
import { onnxComputes } from '../../emit/onnx/lower/lowerings.ts';
import { OnnxPiece } from './compiled-session.ts';
import { onnxSlots } from '../../emit/onnx/onnx-slots.ts';
import { withPreferredSteps } from './preferred-instructions.ts';
import { hasGivenAttributes, sessionModel, sizeInputs } from '../../emit/onnx/session-model.ts';
import type { Sessions } from './sessions.ts';
import { describePiece, formatPiece } from '../../program/partition.ts';
import type { Rest, RestPiece, PlannedOnnx } from '../../plan/partition/fallback-engine.ts';

/** ONNX Runtime as what computes the steps that kernels do not compute. */
export function onnxRest(sessions: Sessions): Rest {
  return {
    kind: 'onnx',
    isChoice: onnxComputes,
    withPreferred: withPreferredSteps,
    plan: (segment, piece): PlannedOnnx => ({
      kind: 'onnx',
      graph: onnxGraph(segment, piece),
      slots: onnxSlots(segment.values, piece),
      description: describePiece(piece),
    }),
    takesSizes: (pattern) => !hasGivenAttributes(own(pattern).graph),
    acquire: async (given, known) => {
      const pattern = own(given);
      const describe = (): string => formatPiece(own(known).description);
      const lease = sessions.acquire(sessionModel(pattern.graph), describe);
      return {
        link: (memory, piece): CompiledPiece => {
          const { graph, slots, description } = own(piece);
          const sizes = sizeInputs(graph, pattern.graph);
          return new OnnxPiece(memory, slots, sizes, lease.session, () => formatPiece(description));
        },
        release: () => lease.release(),
      };
    },
  };
}

function own(piece: RestPiece): PlannedOnnx {
  if (piece.kind === 'onnx') return piece;
  throw new RangeError(`a piece of kind ${piece.kind} is no session`);
}
