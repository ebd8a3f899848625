import { StateModule } from '../model/state-module.ts';

/** A part of an encoder. Hugging Face's names of its members are those of the rule, but for `LayerNorm`. */
export abstract class EncoderPart extends StateModule {
  protected override nameOf(field: string): string {
    return field === 'layerNorm' ? 'LayerNorm' : super.nameOf(field);
  }
}
