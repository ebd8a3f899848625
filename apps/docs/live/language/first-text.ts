/** The text on which the page trains before the reader pastes another one. */
export const firstText: string = `A rank has a part of the data. A rank has a copy of the model. The ranks compute, and then the ranks talk.
Each rank sends what it has, and each rank gets the sum of what all of them have. So each rank takes the same step, and the copies stay the same.
Where a model is too large for a rank, the ranks share it out: a rank keeps a part, and asks the other ranks for the rest when it needs it.
Where a rank is slow, the other ranks wait. Where a rank is gone, the other ranks say which one it was, and all of them start again from the last checkpoint.
The more ranks there are, the less each rank has to do, and the more the ranks have to say. A good plan keeps the ranks at work while they talk.
`;
