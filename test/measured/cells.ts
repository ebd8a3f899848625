import { predict, quantitiesOf } from '@shardwise/planner';
import { playbookRuns } from './measured-runs.ts';

/** The runs of a model on a number of nodes. */
export interface Cell {
  readonly name: string;
  /** The tokens per second of the layout that is predicted best, as a share of the best measured ones. */
  readonly reached: number;
  /** The seconds of a message of a pipeline besides its link, in the runs of the other cells. */
  readonly messageSeconds: number;
}

/**
 * Chooses among the playbook's runs of each cell by what `predict` says and by one constant: what each message of a pipeline
 * takes besides its link, which is the excess of all runs of the other cells over their number of messages. In these tables
 * a message takes nothing besides, or about half a second. nanotron sends the shape of each tensor before it, in two messages for
 * which hosts wait; why that takes so long in two of five runs, no column says. So the mean over both kinds is what a choice can
 * expect.
 */
export function playbookCells(): readonly Cell[] {
  const runs = playbookRuns('playbook').map(({ model, layout, workload, cluster, row }) => {
    const { stepSeconds } = predict(model, layout, workload, cluster);
    const { batch, sequence } = workload;
    const devices = cluster.hosts * cluster.devicesPerHost;
    const tokensPerSecond = Number(row.tokensPerSecondPerDevice);
    return {
      cell: `${row.model} on ${row.nodes} nodes`,
      tokensPerSecond,
      tokens: batch * sequence,
      predicted: stepSeconds,
      excess: (batch * sequence) / (tokensPerSecond * devices) - stepSeconds,
      messages: quantitiesOf(model, layout, workload, cluster).pipelineMessages,
    };
  });
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  return [...Map.groupBy(runs, ({ cell }) => cell)].map(([name, own]): Cell => {
    const others = runs.filter(({ cell, messages }) => cell !== name && messages > 0);
    const messageSeconds =
      sum(others.map(({ excess }) => excess)) / sum(others.map(({ messages }) => messages));
    const rate = ({ tokens, predicted, messages }: (typeof runs)[number]): number =>
      tokens / (predicted + messageSeconds * messages);
    const chosen = own.reduce((a, b) => (rate(b) > rate(a) ? b : a));
    const best = Math.max(...own.map(({ tokensPerSecond }) => tokensPerSecond));
    return { name, reached: chosen.tokensPerSecond / best, messageSeconds };
  });
}
