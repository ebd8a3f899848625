/**
 * The time in milliseconds that the ranks of a test may train before they count as hanging. A busy machine takes many
 * times as long as an idle one.
 */
export const trainingMs = 900_000;
/** The time limit of the test itself in milliseconds. It is longer, so that the error of the ranks comes first. */
export const testMs: number = trainingMs + 20_000;
