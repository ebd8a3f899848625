import { Module } from '@shardwise/core/extend';

/** The name of a member in Hugging Face's state dicts: `qProj` is `q_proj`, `ln_1` and `fc1` stay. */
export function stateName(member: string): string {
  return member.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A module whose members have the names of Hugging Face's state dicts, by the rule of `stateName`. */
export abstract class StateModule extends Module {
  protected override nameOf(field: string): string {
    return stateName(field);
  }
}
