import type { Block, ModelBlocks } from './blocks.ts';
import type { RunLayout } from './run-layout.ts';

/** The layers of one rank of a pipeline, together. */
export interface Place extends Block {
  readonly layers: number;
  /** The largest `liveBytes` of its layers. */
  readonly largestLiveBytes: number;
  /** The elements of its largest layer, which ZeRO-3 gathers. */
  readonly largestParameters: number;
}

/**
 * The numbers of layers of stages. Stages in the middle get one more if the number of stages does not divide that of
 * layers, because the first and the last stage also have embeddings and logits.
 */
function layersOfStages(layers: number, stages: number): readonly number[] {
  const extra = layers % stages;
  const before = Math.floor((stages - extra) / 2);
  return Array.from(
    { length: stages },
    (_, stage) => Math.floor(layers / stages) + (stage >= before && stage < before + extra ? 1 : 0),
  );
}

/**
 * The numbers of layers of stages with about the same operations: a stage ends where its share of all operations is reached.
 * No stage is empty, and the last one has the end of the model.
 */
function layersOfEqualStages({ layers, last }: ModelBlocks, stages: number): readonly number[] {
  const total = layers.reduce((sum, layer) => sum + layer.forwardFlops, last.forwardFlops);
  const counts = Array.from({ length: stages }, () => 0);
  let stage = 0;
  let before = 0;
  for (const [index, layer] of layers.entries()) {
    const isReached = before >= (total * (stage + 1)) / stages;
    // What is left must be enough for the stages that are left; the last one may have the logits alone.
    const isDue = layers.length - index < stages - 1 - stage;
    if ((isReached || isDue) && stage < stages - 1 && (counts[stage] ?? 0) > 0) stage++;
    counts[stage] = (counts[stage] ?? 0) + 1;
    before += layer.forwardFlops;
  }
  return counts;
}

/** The rank of each stage: 0, 1, …, 0, 1, … and, for schedules that turn back, 0, 1, …, 1, 0. */
function rankOfStage(stage: number, ranks: number, isV: boolean): number {
  const round = Math.floor(stage / ranks);
  const place = stage % ranks;
  return isV && round % 2 === 1 ? ranks - 1 - place : place;
}

const turnsBack: ReadonlySet<string> = new Set(['zbv', 'vHalf', 'vMin', 'dualPipeV']);

/** A stage of a pipeline. */
export interface Stage extends Place {
  /** The rank of the pipeline that has it. */
  readonly rank: number;
}

/** What each stage of a pipeline has. */
export function stagesOf(blocks: ModelBlocks, layout: RunLayout): readonly Stage[] {
  return stageBlocks(blocks, layout).map(({ rank, layers, ends }) => ({
    rank,
    ...placeOf(layers, ends),
  }));
}

/** What each rank of a pipeline has: all its stages together. */
export function placesOf(blocks: ModelBlocks, layout: RunLayout): readonly Place[] {
  const stages = stageBlocks(blocks, layout);
  return Array.from({ length: layout.pipelineParallel }, (_, rank) => {
    const own = stages.filter((stage) => stage.rank === rank);
    return placeOf(
      own.flatMap(({ layers }) => layers),
      own.flatMap(({ ends }) => ends),
    );
  });
}

interface StageBlocks {
  readonly rank: number;
  readonly layers: readonly Block[];
  /** What stands before the first layer of the model and after the last, on their stages. */
  readonly ends: readonly Block[];
}

function stageBlocks(blocks: ModelBlocks, layout: RunLayout): readonly StageBlocks[] {
  const { pipelineParallel: ranks, stagesPerRank, schedule } = layout;
  const isV = turnsBack.has(schedule);
  const stages = ranks * stagesPerRank;
  const lastRank = rankOfStage(stages - 1, ranks, isV);
  let next = 0;
  const counts =
    layout.stagesAlike === 'operations'
      ? layersOfEqualStages(blocks, stages)
      : layersOfStages(blocks.layers.length, stages);
  return counts.map((count, stage): StageBlocks => {
    const layers = blocks.layers.slice(next, next + count);
    next += count;
    const ends = [
      ...(stage === 0 ? [blocks.first] : []),
      ...(stage === stages - 1 ? [tied(blocks, lastRank === 0)] : []),
    ];
    return { rank: rankOfStage(stage, ranks, isV), layers, ends };
  });
}

function placeOf(layers: readonly Block[], ends: readonly Block[]): Place {
  const blocks = [...layers, ...ends];
  return { ...sumOf(blocks), ...largestOf(blocks), layers: layers.length };
}

/** The end of the model. It has a copy of the embedding of tokens, if it uses that and is on another rank. */
function tied({ last, tiedParameters }: ModelBlocks, isFirst: boolean): Block {
  return { ...last, parameters: last.parameters + (isFirst ? 0 : tiedParameters) };
}

function largestOf(
  blocks: readonly Block[],
): Pick<Place, 'largestLiveBytes' | 'largestParameters'> {
  const most = (value: (block: Block) => number): number => Math.max(0, ...blocks.map(value));
  return {
    largestLiveBytes: most(({ liveBytes }) => liveBytes),
    largestParameters: most((block) => block.parameters + block.expertParameters),
  };
}

function sumOf(blocks: readonly Block[]): Block {
  // Layers that are alike are one object.
  const counts = new Map<Block, number>();
  for (const block of blocks) counts.set(block, (counts.get(block) ?? 0) + 1);
  const alike = [...counts];
  const sum = (value: (block: Block) => number): number =>
    alike.reduce((total, [block, count]) => total + count * value(block), 0);
  return {
    parameters: sum((block) => block.parameters),
    expertParameters: sum((block) => block.expertParameters),
    sentTensors: sum((block) => block.sentTensors),
    regatheredParameters: sum((block) => block.regatheredParameters),
    regatheredTensors: sum((block) => block.regatheredTensors),
    forwardFlops: sum((block) => block.forwardFlops),
    recomputedFlops: sum((block) => block.recomputedFlops),
    recomputedBytes: sum((block) => block.recomputedBytes),
    activationBytes: sum((block) => block.activationBytes),
    offloadedBytes: sum((block) => block.offloadedBytes),
    liveBytes: sum((block) => block.liveBytes),
    movedBytes: sum((block) => block.movedBytes),
    calls: sum((block) => block.calls),
    outputBytes: sum((block) => block.outputBytes),
    tensorBytes: sum((block) => block.tensorBytes),
    tensorReductions: sum((block) => block.tensorReductions),
    contextBytes: sum((block) => block.contextBytes),
    expertBytes: sum((block) => block.expertBytes),
  };
}
