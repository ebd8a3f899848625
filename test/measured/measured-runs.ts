import {
  namedCluster,
  namedModel,
  oneDevice,
  type ClusterDescription,
  type ModelDescription,
  type RunLayout,
  transformer,
  type Workload,
} from '@shardwise/planner';
import { readRows, type Row } from './rows.ts';

/** A run of a table, as the planner describes it. */
export interface MeasuredRun {
  readonly model: ModelDescription;
  readonly layout: RunLayout;
  readonly workload: Workload;
  readonly cluster: ClusterDescription;
  readonly row: Row;
}

function number(row: Row, column: string): number {
  return Number(row[column]);
}

/** vTrain's runs, of many nodes or of one: Megatron-DeepSpeed with full recomputation. */
export function vtrainRuns(name: 'many-nodes' | 'one-node'): readonly MeasuredRun[] {
  return readRows(`vtrain-${name}.json`).map((row): MeasuredRun => {
    const [hidden, layers, heads, sequence] = ['hidden', 'layers', 'heads', 'sequence'].map(
      (column) => number(row, column),
    ) as [number, number, number, number];
    const layout: RunLayout = {
      ...oneDevice,
      dataParallel: number(row, 'dp'),
      tensorParallel: number(row, 'tp'),
      pipelineParallel: number(row, 'pp'),
      rows: number(row, 'rows'),
      recompute: 'full',
      flashAttention: false,
      betweenStages: 'parts',
    };
    return {
      model: transformer({ name: 'gpt', hidden, layers, heads, sequence, vocabulary: 51_200 }),
      layout,
      workload: { batch: number(row, 'batch'), sequence },
      cluster: namedCluster(`${number(row, 'devices')}xa100`),
      row,
    };
  });
}

/** The playbook's runs with nanotron, measured or crashed. */
export function playbookRuns(
  name: 'playbook' | 'playbook-crashed' | 'playbook-best',
): readonly MeasuredRun[] {
  return readRows(`${name}.json`).map((row): MeasuredRun => {
    const dataParallel = number(row, 'dp');
    const isDivided = number(row, 'zero') === 1 && dataParallel > 1;
    return {
      model: namedModel(`playbook:${row.model}`),
      layout: {
        ...oneDevice,
        dataParallel,
        tensorParallel: number(row, 'tp'),
        pipelineParallel: number(row, 'pp'),
        rows: number(row, 'rows'),
        sequenceParallel: number(row, 'tp') > 1,
        zero: isDivided ? 1 : 0,
        shardRanks: isDivided ? dataParallel : 1,
        stagesAlike: 'operations',
        precision: 'mixed, f32 gradients',
      },
      workload: {
        batch: dataParallel * number(row, 'rows') * number(row, 'accumulation'),
        sequence: 4096,
      },
      cluster: namedCluster(`${number(row, 'nodes') * 8}xh100`),
      row,
    };
  });
}
