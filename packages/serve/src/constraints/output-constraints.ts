import type { Tokenizer } from '@shardwise/data';
import { patternOfGrammar } from './grammar.ts';
import { patternOfAnyObject, patternOfSchema } from './json-schema.ts';
import { choice, literal, sequence } from './pattern.ts';
import { PatternConstraint } from './pattern-constraint.ts';
import { patternOfExpression } from './regular-expression.ts';
import type { TokenConstraint } from './token-constraint.ts';
import { TokenTexts } from './token-texts.ts';

/** Makes constraints for the tokens of one tokenizer. It reads the texts of all tokens once. */
export class OutputConstraints {
  readonly #texts: TokenTexts;

  constructor(tokenizer: Tokenizer, vocabSize: number) {
    this.#texts = new TokenTexts(tokenizer, vocabSize);
  }

  /**
   * JSON that a schema describes. Throws ConfigError for a schema that cannot be met, or that says what is not known
   * here, because the output would not follow it.
   */
  jsonSchema(schema: unknown): TokenConstraint {
    return new PatternConstraint(patternOfSchema(schema), this.#texts);
  }

  /** Any object of JSON. */
  jsonObject(): TokenConstraint {
    return new PatternConstraint(patternOfAnyObject(), this.#texts);
  }

  /** Texts that a whole regular expression matches. Throws ConfigError for one that is not known here. */
  regularExpression(source: string): TokenConstraint {
    return new PatternConstraint(patternOfExpression(source), this.#texts);
  }

  /** Texts of the rule `root` of a grammar in GBNF. Throws ConfigError for what is none, and for rules without texts. */
  grammar(source: string): TokenConstraint {
    return new PatternConstraint(patternOfGrammar(source), this.#texts);
  }

  /** One of some texts. */
  choice(texts: readonly string[]): TokenConstraint {
    return new PatternConstraint(choice(texts.map((text) => literal(text))), this.#texts);
  }

  /**
   * One of some texts that are made of parts, which are texts or JSON of a schema, such as JSON between two tags. Throws as
   * `jsonSchema` does.
   */
  alternatives(
    texts: readonly (readonly (string | { readonly jsonSchema: unknown })[])[],
  ): TokenConstraint {
    const patterns = texts.map((parts) =>
      sequence(
        ...parts.map((part) =>
          typeof part === 'string' ? literal(part) : patternOfSchema(part.jsonSchema),
        ),
      ),
    );
    return new PatternConstraint(choice(patterns), this.#texts);
  }
}
