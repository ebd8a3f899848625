import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { architectures } from '../architectures.ts';
import type { FromPretrainedOptions } from './from-pretrained.ts';

/** Options of `sequenceClassifier`. */
export interface SequenceClassifierOptions {
  /** The names of the classes, at the places of their labels. */
  readonly classes: readonly string[];
}

const classifierRules: OptionRules<SequenceClassifierOptions> = {
  classes: option.required(option.listOf(option.nonEmptyText)),
};

const classifiers = architectures.filter(({ name }) => name.endsWith('ForSequenceClassification'));

/**
 * Options of `fromPretrained` that make a classifier of whole texts of any encoder's folder
 * (`AutoModelForSequenceClassification` of transformers): `fromPretrained(folder, sequenceClassifier({ classes }))`. The
 * head is new if the folder has none for so many classes, and so is the pooler if it has none.
 */
export function sequenceClassifier(options: SequenceClassifierOptions): FromPretrainedOptions {
  checkOptions('sequenceClassifier', options, classifierRules);
  const { classes } = options;
  return {
    architectures: classifiers,
    config: {
      architectures: [], // whatever head the folder has
      id2label: Object.fromEntries(classes.map((name, id) => [String(id), name])),
      label2id: Object.fromEntries(classes.map((name, id) => [name, id])),
    },
    allowMissing: [/\.pooler\./, /^classifier\./],
    allowMismatched: [/^classifier\./],
    allowUnexpected: [/^cls\./, /^lm_head\./, /(?:^|\.)pooler\./],
  };
}
