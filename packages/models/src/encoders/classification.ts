import { ConfigError, DTypeError, functional, type Tensor } from '@shardwise/core/extend';
import { z } from 'zod';
import type { SchemaKeys } from './schema-keys.ts';
import type { PretrainedConfig } from '../model/config-format.ts';
import { PretrainedModel } from '../model/pretrained-model.ts';

/** What a configuration says of the labels of a classifier. */
export interface LabelConfig {
  /** The name of each label, by its number. Default: two labels, `LABEL_0` and `LABEL_1`. */
  readonly id2label?: Readonly<Record<string, string>> | undefined;
  /** The number of each label, by its name. Default: as `id2label` says. */
  readonly label2id?: Readonly<Record<string, number>> | undefined;
  /** The number of labels. Default: that of `id2label`. */
  readonly numLabels?: number | undefined;
  /** Which loss labels get. Default: by the number of labels and the dtype, as `classificationLoss` says. */
  readonly problemType?: ProblemType | null | undefined;
}

const problemTypes = [
  'regression',
  'single_label_classification',
  'multi_label_classification',
] as const;

/** The losses of a classifier, by their names in config.json. */
export type ProblemType = (typeof problemTypes)[number];

/** The keys of `LabelConfig` for a schema. */
export const labelKeys: SchemaKeys<LabelConfig> = {
  id2label: z.record(z.string(), z.string()).optional(),
  label2id: z.record(z.string(), z.int()).optional(),
  numLabels: z.int().positive().optional(),
  problemType: z.enum(problemTypes).nullish(),
};

/** The number of labels. Throws ConfigError if `numLabels` and `id2label` differ. */
export function labelCount({ numLabels, id2label }: LabelConfig): number {
  const named = id2label === undefined ? undefined : Object.keys(id2label).length;
  if (numLabels !== undefined && named !== undefined && numLabels !== named) {
    throw new ConfigError(
      {
        asked: `a classifier of ${numLabels} labels (num_labels)`,
        found: `${named} names of labels (id2label)`,
        todo: 'Leave num_labels out, or give a name to each label',
      },
      { numLabels, id2label },
    );
  }
  return numLabels ?? named ?? 2;
}

/** A model that classifies. The file of its config has the name of each label, of which Python takes their number. */
export abstract class Classifier<
  Config extends PretrainedConfig & LabelConfig,
> extends PretrainedModel<Config> {
  override configJson(): Record<string, unknown> {
    const count = labelCount(this.config);
    const numbered = Array.from({ length: count }, (_, id) => [String(id), `LABEL_${id}`]);
    const { id2label = Object.fromEntries(numbered), label2id = numbersOf(id2label) } = this.config;
    return { ...super.configJson(), id2label, label2id };
  }
}

function numbersOf(id2label: Readonly<Record<string, string>>): Record<string, number> {
  return Object.fromEntries(Object.entries(id2label).map(([id, name]) => [name, Number(id)]));
}

/**
 * The mean loss of a classifier. One label is a number to predict (the mean squared error). Of several labels, each row
 * has one, an integer (cross-entropy), or some, a float from 0 to 1 for each (binary cross-entropy).
 * Shape: logits [B, L], labels i32 [B], or floats [B] or [B, 1] if L is 1, or floats [B, L] -> []. Throws DTypeError.
 */
export function classificationLoss(config: LabelConfig, logits: Tensor, labels: Tensor): Tensor {
  const isInteger = labels.dtype === 'i32';
  const problemType = config.problemType ?? problemOf(labelCount(config), isInteger);
  const wrong = isInteger !== (problemType === 'single_label_classification');
  if (wrong) throw wrongLabels(problemType, labels);
  if (problemType === 'single_label_classification') return functional.crossEntropy(logits, labels);
  const targets = labels.reshape(logits.shape);
  return problemType === 'regression'
    ? functional.mseLoss(logits, targets)
    : functional.binaryCrossEntropyWithLogits(logits, targets);
}

function problemOf(count: number, isInteger: boolean): ProblemType {
  if (count === 1) return 'regression';
  return isInteger ? 'single_label_classification' : 'multi_label_classification';
}

function wrongLabels(problem: ProblemType, { dtype, shape }: Tensor): DTypeError {
  const isSingle = problem === 'single_label_classification';
  return new DTypeError(
    {
      asked: `the loss of a ${problem}`,
      found: `labels of ${dtype}`,
      todo: isSingle
        ? "Give the number of each row's label, as i32"
        : 'Give floats, or set problem_type to single_label_classification',
    },
    { dtype, shape },
  );
}
